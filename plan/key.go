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

// Signature names a kind of step: it is equal for steps that make the same
// requests in the same order on every stream. When blocks are freed does not
// matter: where other threads free, no two steps agree on that.
func Signature(steps []*Step) uint64 {
	key := uint64(keyBasis)
	for ordinal, s := range steps {
		if s == nil {
			continue
		}
		key = mix(key, uint64(ordinal))
		for _, op := range s.Ops {
			if !op.Free {
				key = mix(key, uint64(s.Blocks[op.Block].Size))
			}
		}
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

// FirstRequests returns the sizes of the first n requests of s, all of them if
// there are fewer; none if s is nil.
func (s *Step) FirstRequests(n int) []mem.Bytes {
	if s == nil {
		return nil
	}
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
