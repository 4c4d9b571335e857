package stream

import (
	"slices"

	"stalloc/internal/mem"
)

// Holes knows which ranges of an arena the slots of one order leave idle over any
// stretch of its tape. Time is cut into leaves of 32 entries; for every run of
// 1, 2, 4, ... leaves it keeps the gaps that no slot live in the run touches.
// The gaps of a stretch are then the intersection of two runs that cover it, so a
// question costs one pass over two lists, however long the stretch is (the sparse
// table of range-minimum queries: Bender and Farach-Colton, LATIN 2000).
//
//	offset
//	  3  aaaa....      leaf 0: gaps 2-3      leaves 0-1: none of 2-3 is idle in both
//	  2  ....bbbb      leaf 1: gaps 3-4
//	     leaf0 leaf1
type Holes struct {
	arena  mem.Offset
	leaves int
	runs   [][]gaps // runs[k][i]: leaves i to i + 2^k - 1
}

// gaps are idle ranges in the order of their offsets, disjoint.
type gaps []gap

// gap is a range of offsets in units of mem.Grain.
type gap struct{ lo, hi uint32 }

// leafEntries is how many entries of the tape are told apart. A guest that
// overstays by less than what is left of its last leaf disturbs nobody.
const leafEntries = 32

// thinnest is the smallest gap that is kept, in units of mem.Grain. Thinner ones
// are many and hold nothing.
const thinnest = 8

func leaf(entry uint32) int { return int(entry / leafEntries) }

// holesOf builds the table for an order, or one that offers nothing if its slots
// lie at offsets beyond what a gap can say.
func holesOf(slots []Slot, entries []Entry, arena mem.Offset) *Holes {
	h := &Holes{arena: arena, leaves: leaf(uint32(len(entries)-1)) + 1}
	level := h.base(slots, entries)
	for width := 1; ; width *= 2 {
		h.runs = append(h.runs, level)
		if 2*width > h.leaves {
			return h
		}
		next := make([]gaps, h.leaves-2*width+1)
		for i := range next {
			next[i] = intersect(level[i], level[i+width])
		}
		level = next
	}
}

// base returns the gaps of each leaf, from the slots live at its start and those
// allocated in it.
func (h *Holes) base(slots []Slot, entries []Entry) []gaps {
	out := make([]gaps, h.leaves)
	live, gone := lasting(slots, entries), gaps(nil) // by offset; gone: freed within the leaf
	byLo := func(g gap, lo uint32) int { return int(int64(g.lo) - int64(lo)) }
	for at := range entries {
		e := &entries[at]
		if e.Slot != None && e.Offset&EntryPool == 0 {
			s := &slots[e.Slot]
			g := gap{grains(uint64(s.Offset)), grains(uint64(s.Offset) + uint64(s.Size))}
			if i, found := slices.BinarySearchFunc(live, g.lo, byLo); e.Size != 0 {
				live = slices.Insert(live, i, g)
			} else if found {
				live = slices.Delete(live, i, i+1)
				gone = append(gone, g)
			}
		}
		if (at+1)%leafEntries == 0 || at == len(entries)-1 {
			busy := slices.Concat(live, gone)
			slices.SortFunc(busy, func(a, b gap) int { return int(int64(a.lo) - int64(b.lo)) })
			out[at/leafEntries] = between(nil, busy, grains(uint64(h.arena)))
			gone = gone[:0]
		}
	}
	return out
}

// lasting returns the slots that persist from another order.
func lasting(slots []Slot, entries []Entry) gaps {
	here := make(map[uint32]bool)
	for i := range entries {
		if e := &entries[i]; e.Size != 0 && e.Offset&EntryPersists != 0 {
			here[e.Slot] = true
		}
	}
	var out gaps
	for i, s := range slots {
		if s.Persist && !here[uint32(i)] {
			out = append(out, gap{grains(uint64(s.Offset)), grains(uint64(s.Offset) + uint64(s.Size))})
		}
	}
	slices.SortFunc(out, func(a, b gap) int { return int(int64(a.lo) - int64(b.lo)) })
	return out
}

func grains(offset uint64) uint32 { return uint32(offset / uint64(mem.Grain)) }

// between appends what busy ranges, sorted but maybe overlapping, leave of [0, end).
func between(out gaps, busy []gap, end uint32) gaps {
	at := uint32(0)
	for _, b := range append(busy, gap{end, end}) {
		if b.lo >= at+thinnest {
			out = append(out, gap{at, b.lo})
		}
		at = max(at, b.hi)
	}
	return out
}

func intersect(a, b gaps) gaps {
	var out gaps
	for i, j := 0, 0; i < len(a) && j < len(b); {
		lo, hi := max(a[i].lo, b[j].lo), min(a[i].hi, b[j].hi)
		if hi >= lo+thinnest && hi > lo {
			out = append(out, gap{lo, hi})
		}
		if a[i].hi < b[j].hi {
			i++
		} else {
			j++
		}
	}
	return out
}

// over returns two lists of gaps whose intersection is idle from the leaf of one
// entry to that of another, both included.
func (h *Holes) over(from, to uint32) (gaps, gaps) {
	first, last := leaf(from), min(leaf(to), h.leaves-1)
	k := 0
	for 2<<k <= last-first+1 {
		k++
	}
	return h.runs[k][first], h.runs[k][last-1<<k+1]
}

// idle appends the gaps of at least least grains that no slot touches from entry
// now to entry end.
func (h *Holes) idle(out gaps, now, end, least uint32) gaps {
	a, b := h.over(now, end)
	for i, j := 0, 0; i < len(a) && j < len(b); {
		lo, hi := max(a[i].lo, b[j].lo), min(a[i].hi, b[j].hi)
		if a[i].hi < b[j].hi {
			i++
		} else {
			j++
		}
		if hi > lo && hi-lo >= least {
			out = append(out, gap{lo, hi})
		}
	}
	return out
}

// idleUntil returns the first entry, at or behind one, of the first leaf in which
// a range is not known to be idle.
func (h *Holes) idleUntil(r gap, from uint32) uint32 {
	i := leaf(from)
	for k := len(h.runs) - 1; k >= 0; k-- {
		if i+1<<k <= h.leaves && h.runs[k][i].contain(r) {
			i += 1 << k
		}
	}
	return max(from, uint32(i)*leafEntries)
}

func (g gaps) contain(r gap) bool {
	i, _ := slices.BinarySearchFunc(g, r.lo, func(a gap, lo uint32) int {
		if a.hi <= lo {
			return -1
		}
		return 1
	})
	return i < len(g) && g[i].lo <= r.lo && r.hi <= g[i].hi
}
