package sim

import (
	"slices"
	"sort"

	"stalloc/internal/mem"
)

// The simulated address space, within the 47 bits that a process has. No address below
// reservedBase is ever given, so that a small integer used as an address fails.
const (
	reservedBase mem.Addr  = 1 << 44
	addressEnd   mem.Addr  = 1 << 47
	maxReserve   mem.Bytes = 1 << 46
)

// space hands out address ranges and finds the range an address lies in.
// Ranges come from a rising mark; one given back is reused for the next
// request of exactly its size, so that stale addresses do become valid again,
// as they do on a device. Sizes are multiples of the caller's alignment, which
// keeps every range aligned.
type space[T any] struct {
	next, end mem.Addr
	idle      map[mem.Bytes][]mem.Addr
	spans     []*span[T] // by address
	last      *span[T]   // the one found last
}

type span[T any] struct {
	addr mem.Addr
	size mem.Bytes
	data T
}

func (s *span[T]) holds(addr mem.Addr) bool {
	return addr >= s.addr && mem.Bytes(addr-s.addr) < s.size
}

// take returns a new range, or nil when the addresses are used up.
func (s *space[T]) take(size mem.Bytes, align mem.Bytes) *span[T] {
	added := &span[T]{size: size}
	if idle := s.idle[size]; len(idle) > 0 {
		added.addr = idle[len(idle)-1]
		s.idle[size] = idle[:len(idle)-1]
	} else {
		at := mem.Addr(mem.RoundUp(mem.Bytes(s.next), align))
		if mem.Bytes(s.end-at) < size {
			return nil
		}
		added.addr = at
		s.next = at + mem.Addr(size)
	}
	s.spans = slices.Insert(s.spans, s.after(added.addr), added)
	return added
}

// after returns the index of the first range above addr.
func (s *space[T]) after(addr mem.Addr) int {
	return sort.Search(len(s.spans), func(i int) bool { return s.spans[i].addr > addr })
}

// find returns the range that addr lies in, or nil.
func (s *space[T]) find(addr mem.Addr) *span[T] {
	if s.last != nil && s.last.holds(addr) {
		return s.last
	}
	i := s.after(addr)
	if i == 0 || !s.spans[i-1].holds(addr) {
		return nil
	}
	s.last = s.spans[i-1]
	return s.last
}

func (s *space[T]) drop(r *span[T]) {
	if s.last == r {
		s.last = nil
	}
	i := s.after(r.addr) - 1
	s.spans = slices.Delete(s.spans, i, i+1)
	if s.idle == nil {
		s.idle = map[mem.Bytes][]mem.Addr{}
	}
	s.idle[r.size] = append(s.idle[r.size], r.addr)
}
