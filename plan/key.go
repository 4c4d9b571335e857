package plan

import "stalloc/internal/mem"

// KeyRequests is how many requests name a run: enough to tell models apart by
// their first layers, few enough that a new run is recognised before its first
// large blocks.
const KeyRequests = 64

// KeyOf returns the key of a request sequence, from its sizes as asked for or
// rounded (FNV-1a over the rounded sizes).
func KeyOf(sizes []mem.Bytes) uint64 {
	key := uint64(keyBasis)
	for _, size := range sizes {
		key = mix(key, uint64(mem.Round(size)))
	}
	return key
}

const keyBasis = 14695981039346656037

func mix(key, n uint64) uint64 {
	for range 8 {
		key = (key ^ n&0xff) * 1099511628211
		n >>= 8
	}
	return key
}
