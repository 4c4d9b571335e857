package gmlake

import (
	"slices"
	"sort"

	"stalloc/internal/mem"
)

// entry is a block in a set, ordered by size and then address.
type entry struct {
	size  mem.Bytes
	addr  mem.Addr
	block int32
}

func (e entry) less(f entry) bool {
	return e.size < f.size || e.size == f.size && e.addr < f.addr
}

// set is an ordered set of blocks: a sorted slice, since a stream has a few
// hundred free blocks and moving their entries costs less than following a tree.
type set struct {
	entries []entry
	bytes   mem.Bytes // sum of the sizes
}

// ceil returns the position of the first entry of at least size.
func (s *set) ceil(size mem.Bytes) (int, bool) {
	i := s.position(entry{size: size})
	return i, i < len(s.entries)
}

func (s *set) position(e entry) int {
	return sort.Search(len(s.entries), func(i int) bool { return !s.entries[i].less(e) })
}

func (s *set) insert(e entry) {
	s.entries = slices.Insert(s.entries, s.position(e), e)
	s.bytes += e.size
}

// remove takes out the block of that size and address; false if there is none.
func (s *set) remove(size mem.Bytes, addr mem.Addr) bool {
	i := s.position(entry{size: size, addr: addr})
	if i == len(s.entries) || s.entries[i].size != size || s.entries[i].addr != addr {
		return false
	}
	s.entries = slices.Delete(s.entries, i, i+1)
	s.bytes -= size
	return true
}
