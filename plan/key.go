package plan

import "stalloc/internal/mem"

// KeyRequests is how many requests name a run: enough to tell models apart by
// their first layers, few enough that a new run is recognised before its first
// large blocks.
const KeyRequests = 64

// KeyOf returns the key of a request sequence, from its sizes as asked for or
// rounded (FNV-1a over the rounded sizes).
func KeyOf(sizes []mem.Bytes) uint64 {
	key := uint64(14695981039346656037)
	for _, size := range sizes {
		n := uint64(mem.Round(size))
		for range 8 {
			key = (key ^ n&0xff) * 1099511628211
			n >>= 8
		}
	}
	return key
}

// requests returns the sizes of the first n requests of s, all of them if
// there are fewer.
func (s *Step) requests(n int) []mem.Bytes {
	var sizes []mem.Bytes
	for _, op := range s.Ops {
		if len(sizes) == n {
			break
		}
		if !op.Free {
			sizes = append(sizes, s.Blocks[op.Block].Size)
		}
	}
	return sizes
}
