package onerange

import (
	"math/bits"

	"stalloc/internal/mem"
)

// unit counts 512 bytes: a place in the window, or a size.
type unit int64

const pageUnits = unit(mem.HandleSize / mem.Grain) // the driver's granularity

func bytesOf(n unit) mem.Bytes { return mem.Bytes(n) * mem.Grain }

func unitsOf(n mem.Bytes) unit { return unit((n + mem.Grain - 1) / mem.Grain) }

// A gap is a node of two treaps at once: byAddr keeps the gaps of a space by their
// start, bySize those of one size class by (size, start). Keys are single words, so
// one implementation serves both. The priority of a node is a hash of its number:
// balanced on average, and the same in every run.
type gap struct {
	key        [2]uint64 // byAddr: start; bySize: size<<startBits | start, in units
	kid        [2][2]uint32
	space      uint32
	prev, next link
}

const (
	byAddr = 0
	bySize = 1
)

// startBits is the width of a start inside a bySize key: 2^33 units are 4 TiB,
// the largest window, and leave 2^31 units, 1 TiB, for the size.
const startBits = 33

func (g *gap) start() unit { return unit(g.key[byAddr]) }
func (g *gap) size() unit  { return unit(g.key[bySize] >> startBits) }
func (g *gap) end() unit   { return g.start() + g.size() }

func (g *gap) set(lo, hi unit) {
	g.key[byAddr] = uint64(lo)
	g.key[bySize] = uint64(hi-lo)<<startBits | uint64(lo)
}

func priority(n uint32) uint32 {
	n *= 2654435761
	n ^= n >> 15
	return n * 2246822519
}

// insert adds node n to the treap under root.
func insert(nodes []gap, root *uint32, n uint32, by int) {
	key, pri := nodes[n].key[by], priority(n)
	p := root
	for *p != 0 && priority(*p) >= pri {
		c := &nodes[*p]
		if key < c.key[by] {
			p = &c.kid[by][0]
		} else {
			p = &c.kid[by][1]
		}
	}
	// Split what hangs here around the key; the halves become n's children.
	rest := *p
	*p = n
	low, high := &nodes[n].kid[by][0], &nodes[n].kid[by][1]
	for rest != 0 {
		c := &nodes[rest]
		if c.key[by] < key {
			*low = rest
			low = &c.kid[by][1]
			rest = *low
		} else {
			*high = rest
			high = &c.kid[by][0]
			rest = *high
		}
	}
	*low, *high = 0, 0
}

// remove takes node n, which must be there, out of the treap under root.
func remove(nodes []gap, root *uint32, n uint32, by int) {
	key := nodes[n].key[by]
	p := root
	for *p != n {
		c := &nodes[*p]
		if key < c.key[by] {
			p = &c.kid[by][0]
		} else {
			p = &c.kid[by][1]
		}
	}
	low, high := nodes[n].kid[by][0], nodes[n].kid[by][1]
	for low != 0 && high != 0 {
		if priority(low) >= priority(high) {
			*p = low
			p = &nodes[low].kid[by][1]
			low = *p
		} else {
			*p = high
			p = &nodes[high].kid[by][0]
			high = *p
		}
	}
	*p = low | high
}

// atMost returns the node with the largest key not above key, or zero.
func atMost(nodes []gap, root uint32, key uint64, by int) uint32 {
	best := uint32(0)
	for root != 0 {
		c := &nodes[root]
		if c.key[by] <= key {
			best = root
			root = c.kid[by][1]
		} else {
			root = c.kid[by][0]
		}
	}
	return best
}

// atLeast returns the node with the smallest key not below key, or zero.
func atLeast(nodes []gap, root uint32, key uint64, by int) uint32 {
	best := uint32(0)
	for root != 0 {
		c := &nodes[root]
		if c.key[by] >= key {
			best = root
			root = c.kid[by][0]
		} else {
			root = c.kid[by][1]
		}
	}
	return best
}

// The size classes: one per unit up to 32 units, then 32 per doubling, so that
// the treap of a class stays small whatever sizes a workload uses.
const (
	classBits = 5
	classes   = 32 * (startBits - classBits)
)

func sizeClass(n unit) int {
	if n < 1<<classBits {
		return int(n)
	}
	e := bits.Len64(uint64(n)) - 1 - classBits
	return e<<classBits + int(n>>e)
}

// gaps are the free bytes of one space, by address and by size.
type gaps struct {
	root  [classes]uint32 // by size
	some  [(classes + 63) / 64]uint64
	addrs uint32 // by address
}

func (s *gaps) addSize(nodes []gap, n uint32) {
	c := sizeClass(nodes[n].size())
	insert(nodes, &s.root[c], n, bySize)
	s.some[c>>6] |= 1 << (c & 63)
}

func (s *gaps) dropSize(nodes []gap, n uint32) {
	c := sizeClass(nodes[n].size())
	remove(nodes, &s.root[c], n, bySize)
	if s.root[c] == 0 {
		s.some[c>>6] &^= 1 << (c & 63)
	}
}

// bestFit returns the smallest gap that holds n units, the lowest of that size;
// zero if there is none.
func (s *gaps) bestFit(nodes []gap, n unit) uint32 {
	c := sizeClass(n)
	if g := atLeast(nodes, s.root[c], uint64(n)<<startBits, bySize); g != 0 {
		return g
	}
	if c = s.nextClass(c + 1); c == classes {
		return 0
	}
	return atLeast(nodes, s.root[c], 0, bySize)
}

// nextClass returns the first class from c on that has a gap; classes: none.
func (s *gaps) nextClass(c int) int {
	for w := c >> 6; w < len(s.some); w++ {
		word := s.some[w]
		if w == c>>6 {
			word &= ^uint64(0) << (c & 63)
		}
		if word != 0 {
			return w<<6 + bits.TrailingZeros64(word)
		}
	}
	return classes
}

// nextBySize returns the gap that follows g by (size, start), or zero.
func (s *gaps) nextBySize(nodes []gap, g uint32) uint32 {
	key := uint64(0)
	c := 0
	if g != 0 {
		key = nodes[g].key[bySize] + 1
		c = sizeClass(nodes[g].size())
		if n := atLeast(nodes, s.root[c], key, bySize); n != 0 {
			return n
		}
		c++
	}
	if c = s.nextClass(c); c == classes {
		return 0
	}
	return atLeast(nodes, s.root[c], 0, bySize)
}
