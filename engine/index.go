package engine

import "math/bits"

// pageBits is a set of page numbers as a tree of bitmaps, 64 children a node:
// the largest member not above x is found in one walk up and one down.
type pageBits struct {
	level [][]uint64
}

func newPageBits(pages int) pageBits {
	var b pageBits
	for n := pages; ; {
		n = (n + 63) / 64
		b.level = append(b.level, make([]uint64, n))
		if n == 1 {
			return b
		}
	}
}

func (b *pageBits) set(x uint32) {
	for _, words := range b.level {
		w := &words[x>>6]
		full := *w != 0
		*w |= 1 << (x & 63)
		if full {
			return
		}
		x >>= 6
	}
}

func (b *pageBits) reset(x uint32) {
	for _, words := range b.level {
		w := &words[x>>6]
		*w &^= 1 << (x & 63)
		if *w != 0 {
			return
		}
		x >>= 6
	}
}

// floor returns the largest member not above x.
func (b *pageBits) floor(x uint32) (uint32, bool) {
	for l := range b.level {
		// Members at or below x in this word; above the lowest level x itself is
		// excluded, because its subtree has been searched already.
		below := b.level[l][x>>6] & (1<<(x&63) - 1)
		if l == 0 {
			below |= b.level[l][x>>6] & (1 << (x & 63))
		}
		if below != 0 {
			x = x&^63 | uint32(63-bits.LeadingZeros64(below))
			for ; l > 0; l-- {
				x = x<<6 | uint32(63-bits.LeadingZeros64(b.level[l-1][x]))
			}
			return x, true
		}
		x >>= 6
	}
	return 0, false
}

// A run is a node of two treaps at once: byAddr keeps the runs that start in one
// page by their start, bySize the runs of one size class by (size, start). Keys
// are single words, so one implementation serves both. The priority of a node is
// a hash of its number: balanced on average, and the same in every run.
const (
	byAddr = 0
	bySize = 1
)

// startBits is the width of a start inside a bySize key: 2^33 units are 4 TiB,
// the largest window, and leave 31 bits for the size: less than 1 TiB (maxHandles).
const startBits = 33

type run struct {
	key  [2]uint64 // byAddr: start; bySize: size<<startBits | start, in units
	kid  [2][2]uint32
	view uint32
}

func (r *run) start() unit { return unit(r.key[byAddr]) }
func (r *run) size() unit  { return unit(r.key[bySize] >> startBits) }
func (r *run) end() unit   { return r.start() + r.size() }

func (r *run) setRange(start, end unit) {
	r.key[byAddr] = uint64(start)
	r.key[bySize] = uint64(end-start)<<startBits | uint64(start)
}

func priority(n uint32) uint32 {
	n *= 2654435761
	n ^= n >> 15
	return n * 2246822519
}

// insert adds node n to the treap under root.
func insert(nodes []run, root *uint32, n uint32, by int) {
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
func remove(nodes []run, root *uint32, n uint32, by int) {
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
func atMost(nodes []run, root uint32, key uint64, by int) uint32 {
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
func atLeast(nodes []run, root uint32, key uint64, by int) uint32 {
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

// sizeIndex holds the runs of one list of a heap by size.
type sizeIndex struct {
	root [classes]uint32
	some [(classes + 63) / 64]uint64
}

func (s *sizeIndex) add(nodes []run, n uint32) {
	c := sizeClass(nodes[n].size())
	insert(nodes, &s.root[c], n, bySize)
	s.some[c>>6] |= 1 << (c & 63)
}

func (s *sizeIndex) drop(nodes []run, n uint32) {
	c := sizeClass(nodes[n].size())
	remove(nodes, &s.root[c], n, bySize)
	if s.root[c] == 0 {
		s.some[c>>6] &^= 1 << (c & 63)
	}
}

// bestFit returns the smallest run that holds n units, the lowest of that size;
// zero if there is none.
func (s *sizeIndex) bestFit(nodes []run, n unit) uint32 {
	c := sizeClass(n)
	if r := atLeast(nodes, s.root[c], uint64(n)<<startBits, bySize); r != 0 {
		return r
	}
	c++
	for w := c >> 6; w < len(s.some); w++ {
		word := s.some[w]
		if w == c>>6 {
			word &= ^uint64(0) << (c & 63)
		}
		if word != 0 {
			return atLeast(nodes, s.root[w<<6+bits.TrailingZeros64(word)], 0, bySize)
		}
	}
	return 0
}
