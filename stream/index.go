package stream

import (
	"sort"

	"stalloc/internal/mem"
)

// The index maps offsets to places: open addressing, linear probing, at most
// half full, its length a power of two. A cell is (offset/Grain + 1) << 32 |
// place; 0 is empty. C probes it with the same hash.
const maxKey = 1<<32 - 1

func hashKey(key uint64, mask uint64) uint64 { return (key * 0x9E3779B97F4A7C15 >> 32) & mask }

func buildIndex(offsets []uint64) []uint64 {
	size := 16
	for size < 2*len(offsets) {
		size *= 2
	}
	index := make([]uint64, size)
	// Insert in address order: a layout must not depend on the order of slots.
	order := make([]int, len(offsets))
	for i := range order {
		order[i] = i
	}
	sort.Slice(order, func(a, b int) bool { return offsets[order[a]] < offsets[order[b]] })
	for _, place := range order {
		enter(index, offsets[place], place)
	}
	return index
}

// enter adds an offset that is not in the index.
func enter(index []uint64, offset uint64, place int) {
	key, mask := offset/uint64(mem.Grain)+1, uint64(len(index)-1)
	at := hashKey(key, mask)
	for index[at] != 0 {
		at = (at + 1) & mask
	}
	index[at] = key<<32 | uint64(place)
}

// placeIn finds the place at an offset, or None.
func placeIn(index []uint64, offset uint64) uint32 {
	if offset%uint64(mem.Grain) != 0 {
		return None
	}
	key, mask := offset/uint64(mem.Grain)+1, uint64(len(index)-1)
	for at := hashKey(key, mask); index[at] != 0; at = (at + 1) & mask {
		if index[at]>>32 == key {
			return uint32(index[at])
		}
	}
	return None
}

func (t *Tape) place(offset uint64) uint32 { return placeIn(t.Index, offset) }
