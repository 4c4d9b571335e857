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
//
// A very long tape has larger leaves, and of many gaps the largest are kept, so that the
// table takes no more than mostLeaves lists of mostGaps at each of its levels.
type Holes struct {
	arena  mem.Offset
	width  uint32 // entries of a leaf
	leaves int
	runs   [][]gaps // runs[k][i]: leaves i to i + 2^k - 1
}

// gaps are idle ranges in the order of their offsets, disjoint.
type gaps []gap

// gap is a range of offsets in units of mem.Grain.
type gap struct{ lo, hi uint32 }

// leafEntries is how many entries of the tape are told apart, where there are few. A
// guest that overstays by less than what is left of its last leaf disturbs nobody.
const (
	leafEntries = 32
	mostLeaves  = 2048
	mostGaps    = 512
)

// thinnest is the smallest gap that is kept, in units of mem.Grain. Thinner ones
// are many and hold nothing.
const thinnest = 8

func (h *Holes) leaf(entry uint32) int { return int(entry / h.width) }

// holesOf builds the table for an order.
func holesOf(slots []Slot, entries []Entry, arena mem.Offset) *Holes {
	h := &Holes{arena: arena, width: leafEntries}
	for len(entries) > mostLeaves*int(h.width) {
		h.width *= 2
	}
	h.leaves = h.leaf(uint32(len(entries)-1)) + 1
	level := h.base(slots, entries)
	for width := 1; ; width *= 2 {
		h.runs = append(h.runs, level)
		if 2*width > h.leaves {
			return h
		}
		next := make([]gaps, h.leaves-2*width+1)
		for i := range next {
			next[i] = intersect(level[i], level[i+width]).largest()
		}
		level = next
	}
}

// base returns the gaps of each leaf, from the slots live at its start and those
// allocated in it.
func (h *Holes) base(slots []Slot, entries []Entry) []gaps {
	out := make([]gaps, h.leaves)
	live, persistent := make([]bool, len(slots)), lasting(slots, entries)
	b := busyOf(slots, entries, persistent, grains(uint64(h.arena)))
	for _, g := range persistent {
		b.change(g, 1)
	}
	var gone gaps // freed within the leaf
	least := uint32(thinnest)
	for at := range entries {
		if e := &entries[at]; e.Slot != None && e.Offset&EntryPool == 0 {
			if g := gapOf(&slots[e.Slot]); e.Size != 0 {
				live[e.Slot] = true
				b.change(g, 1)
			} else if live[e.Slot] {
				live[e.Slot] = false
				gone = append(gone, g)
			}
		}
		if (at+1)%int(h.width) == 0 || at == len(entries)-1 {
			out[h.leaf(uint32(at))], least = b.most(least)
			for _, g := range gone {
				b.change(g, -1)
			}
			gone = gone[:0]
		}
	}
	return out
}

// most returns the largest gaps, and the size from which on to look for them next time:
// as long as there are too many, the smallest are not even looked at.
func (b *busy) most(least uint32) (found gaps, next uint32) {
	for {
		switch found = b.gaps(least); {
		case len(found) > mostGaps:
			found = found.largest()
			return found, max(least, slices.MinFunc(found, func(a, b gap) int { return int(a.size()) - int(b.size()) }).size())
		case len(found) < mostGaps/2 && least > thinnest:
			least = max(least/2, thinnest)
			continue
		}
		return found, least
	}
}

func (g gap) size() uint32 { return g.hi - g.lo }

// largest returns at most mostGaps of the gaps, in their order.
func (g gaps) largest() gaps {
	if len(g) <= mostGaps {
		return g
	}
	sizes := make([]uint32, len(g))
	for i := range g {
		sizes[i] = g[i].size()
	}
	slices.Sort(sizes)
	least := sizes[len(sizes)-mostGaps]
	equal := 0 // of the least size, as many as there is room for
	for _, n := range sizes[len(sizes)-mostGaps:] {
		if n == least {
			equal++
		}
	}
	out := g[:0]
	for _, one := range g {
		if one.size() == least {
			equal--
		}
		if one.size() > least || one.size() == least && equal >= 0 {
			out = append(out, one)
		}
	}
	return slices.Clip(out)
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
			out = append(out, gapOf(&s))
		}
	}
	return out
}

func grains(offset uint64) uint32 { return uint32(offset / uint64(mem.Grain)) }

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
	first, last := h.leaf(from), min(h.leaf(to), h.leaves-1)
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
	i := h.leaf(from)
	for k := len(h.runs) - 1; k >= 0; k-- {
		if i+1<<k <= h.leaves && h.runs[k][i].contain(r) {
			i += 1 << k
		}
	}
	return max(from, uint32(i)*h.width)
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
