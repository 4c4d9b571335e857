package stream

import "slices"

// busy tells which ranges of an arena are idle while slots come and go: a segment tree
// over the places where slots begin and end (J. L. Bentley, Algorithms for Klee's
// rectangle problems, 1977). A change, and each gap found, costs a path of it.
type busy struct {
	edges []uint32 // where slots begin and end, sorted; cell i is [edges[i], edges[i+1])
	nodes []busyNode
	out   gaps
	from  uint32 // of the idle range that the walk is in
}

// busyNode is a range of cells.
type busyNode struct {
	slots             int32  // that cover all of it, and not all of the node above
	front, back, best uint32 // the idle ranges at its ends, and the longest in it
}

// busyOf returns an idle arena for the slots of an order.
func busyOf(slots []Slot, entries []Entry, persistent gaps, arena uint32) *busy {
	b := &busy{edges: []uint32{0, arena}}
	for _, g := range persistent {
		b.edges = append(b.edges, g.lo, g.hi)
	}
	for i := range entries {
		if e := &entries[i]; e.Size != 0 && e.Offset&EntryPool == 0 {
			g := gapOf(&slots[e.Slot])
			b.edges = append(b.edges, g.lo, g.hi)
		}
	}
	slices.Sort(b.edges)
	b.edges = slices.Compact(b.edges)
	if cells := len(b.edges) - 1; cells > 0 {
		b.nodes = make([]busyNode, 4*cells)
		b.idle(1, 0, cells)
	}
	return b
}

func gapOf(s *Slot) gap {
	return gap{grains(uint64(s.Offset)), grains(uint64(s.Offset) + uint64(s.Size))}
}

// idle makes a node and all below it idle.
func (b *busy) idle(x, from, to int) {
	n := b.edges[to] - b.edges[from]
	b.nodes[x] = busyNode{front: n, back: n, best: n}
	if to-from > 1 {
		mid := (from + to) / 2
		b.idle(2*x, from, mid)
		b.idle(2*x+1, mid, to)
	}
}

// change adds a slot to a range, or takes it away.
func (b *busy) change(g gap, by int32) {
	if len(b.nodes) > 0 {
		b.cover(1, 0, len(b.edges)-1, g, by)
	}
}

func (b *busy) cover(x, from, to int, g gap, by int32) {
	n := &b.nodes[x]
	switch mid := (from + to) / 2; {
	case g.hi <= b.edges[from] || b.edges[to] <= g.lo:
		return
	case g.lo <= b.edges[from] && b.edges[to] <= g.hi:
		n.slots += by
	default:
		b.cover(2*x, from, mid, g, by)
		b.cover(2*x+1, mid, to, g, by)
	}
	b.sum(n, x, from, to)
}

// sum works out a node from the two below it.
func (b *busy) sum(n *busyNode, x, from, to int) {
	size := b.edges[to] - b.edges[from]
	switch {
	case n.slots > 0:
		n.front, n.back, n.best = 0, 0, 0
	case to-from == 1:
		n.front, n.back, n.best = size, size, size
	default:
		l, r, mid := &b.nodes[2*x], &b.nodes[2*x+1], b.edges[(from+to)/2]
		n.front, n.back, n.best = l.front, r.back, max(l.best, r.best, l.back+r.front)
		if l.front == mid-b.edges[from] {
			n.front += r.front
		}
		if r.back == b.edges[to]-mid {
			n.back += l.back
		}
	}
}

// gaps returns the idle ranges of at least least grains.
func (b *busy) gaps(least uint32) gaps {
	b.out, b.from = nil, 0
	if len(b.nodes) > 0 {
		b.walk(1, 0, len(b.edges)-1, least)
		b.until(b.edges[len(b.edges)-1], least)
	}
	return b.out
}

func (b *busy) walk(x, from, to int, least uint32) {
	n, lo, hi := &b.nodes[x], b.edges[from], b.edges[to]
	switch {
	case n.best == hi-lo: // idle as a whole
	case n.best < least || to-from == 1:
		b.until(lo+n.front, least)
		b.from = hi - n.back
	case n.slots > 0:
		b.until(lo, least)
		b.from = hi
	default:
		mid := (from + to) / 2
		b.walk(2*x, from, mid, least)
		b.walk(2*x+1, mid, to, least)
	}
}

// until ends the idle range that the walk is in.
func (b *busy) until(at, least uint32) {
	if at >= b.from+least {
		b.out = append(b.out, gap{b.from, at})
	}
}
