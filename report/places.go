package report

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
)

// nowhere is the place of a block without bytes, or one that was never served.
const nowhere = -1

// extent is a range of addresses that has memory behind it, from one event to another.
type extent struct {
	from, to   mem.Addr
	begin, end int
}

// holding follows which addresses have memory.
type holding struct {
	done []extent
	live []extent // sorted, disjoint, no end yet
}

// set notes that a range gets memory at an event, or loses it.
func (h *holding) set(at mem.Addr, size mem.Bytes, held bool, event int) {
	to := at + mem.Addr(size)
	i, _ := slices.BinarySearchFunc(h.live, at,
		func(e extent, a mem.Addr) int { return cmp.Compare(e.from, a) })
	if i > 0 && h.live[i-1].to > at {
		i--
	}
	var rest []extent
	n := i
	for ; n < len(h.live) && h.live[n].from < to; n++ {
		e := h.live[n]
		if e.from < at {
			rest = append(rest, extent{e.from, at, e.begin, 0})
		}
		if e.to > to {
			rest = append(rest, extent{to, e.to, e.begin, 0})
		}
		if e.begin < event {
			h.done = append(h.done, extent{max(e.from, at), min(e.to, to), e.begin, event})
		}
	}
	if held {
		rest = append(rest, extent{at, to, event, 0})
		slices.SortFunc(rest, func(a, b extent) int { return cmp.Compare(a.from, b.from) })
	}
	h.live = slices.Replace(h.live, i, n, rest...)
	h.join(i, held)
}

// join makes one of neighbours that got their memory together.
func (h *holding) join(i int, held bool) {
	if !held {
		return
	}
	for i = max(i-1, 0); i+1 < len(h.live); {
		a, b := h.live[i], h.live[i+1]
		switch {
		case a.to == b.from && a.begin == b.begin:
			h.live[i].to = b.to
			h.live = slices.Delete(h.live, i+1, i+2)
		default:
			return
		}
	}
}

// close ends the run at an event and returns all extents.
func (h *holding) close(event int) []extent {
	for _, e := range h.live {
		e.end = event
		h.done = append(h.done, e)
	}
	h.live = nil
	return h.done
}

// space turns the addresses of one allocator into heights above the lowest, leaving out
// what neither had memory nor a block in the window that is drawn.
type space struct {
	whole []extent    // disjoint and sorted
	below []mem.Bytes // what lies below each
	high  mem.Bytes
}

func newSpace(held, blocks []extent, begin, end int) *space {
	var used []extent
	for _, e := range blocks {
		if e.from != 0 && e.end >= begin && e.begin < end {
			used = append(used, e)
		}
	}
	for _, e := range held {
		if e.end >= begin && e.begin < end {
			used = append(used, e)
		}
	}
	slices.SortFunc(used, func(a, b extent) int { return cmp.Compare(a.from, b.from) })
	s := &space{}
	for _, e := range used {
		if n := len(s.whole); n > 0 && e.from <= s.whole[n-1].to {
			s.whole[n-1].to = max(s.whole[n-1].to, e.to)
		} else {
			s.whole = append(s.whole, e)
		}
	}
	for _, e := range s.whole {
		s.below = append(s.below, s.high)
		s.high += mem.Bytes(e.to - e.from)
	}
	return s
}

// height returns where an address lies, in grains.
func (s *space) height(at mem.Addr) int {
	n, found := slices.BinarySearchFunc(s.whole, at,
		func(e extent, a mem.Addr) int { return cmp.Compare(e.from, a) })
	if !found {
		n--
	}
	if at == 0 || n < 0 || at >= s.whole[n].to {
		return nowhere
	}
	return int((s.below[n] + mem.Bytes(at-s.whole[n].from)) / mem.Grain)
}
