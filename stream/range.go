package stream

import "stalloc/internal/mem"

// A position whose size varies can have a slot of the largest size it is expected
// to have. Its entry's Size is then a range, which the quick case tests as well:
//
//	bit 63: 1    62-32: least, in grains    31-1: most, in grains    0: marked

const (
	rangeBit  = 1 << 63
	mostRange = 1<<31 - 1
)

// rangeOf returns the Size of an entry that takes requests from least to most
// bytes, both rounded.
func rangeOf(least, most mem.Bytes) uint64 {
	return rangeBit | uint64(least/mem.Grain)<<32 | uint64(most/mem.Grain)<<1
}

// takes reports whether the entry is for a request of n rounded bytes, as the quick
// case decides it.
func (e *Entry) takes(n uint64) bool {
	if e.Size < rangeBit || e.Size&marked != 0 {
		return e.Size == n
	}
	least, most := e.Size>>32&mostRange, e.Size>>1&mostRange
	return n/uint64(mem.Grain)-least <= most-least // less than least wraps around
}
