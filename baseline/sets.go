package baseline

import (
	"sort"

	"stalloc/internal/mem"
)

// entry is a free block in its set, ordered by size and then address.
type entry struct {
	size  mem.Bytes
	addr  mem.Offset
	block int32
}

func (e entry) less(f entry) bool {
	return e.size < f.size || e.size == f.size && e.addr < f.addr
}

// leafCap trades the copying inside a leaf (half a leaf, 24 bytes an entry)
// against the length of the leaf list. A trace holds a few hundred free blocks
// a stream, so one search over a dozen leaves and one inside a leaf.
const leafCap = 64

type leaf struct {
	n int
	e [leafCap]entry
}

// set is an ordered set of entries: a list of sorted leaves, none empty. Two
// short binary searches and a short copy beat the pointer chase of a balanced
// tree, neighbours in order are neighbours in memory, and after warming up
// nothing is allocated.
type set struct {
	leaves []*leaf
	spare  []*leaf
	count  int
}

// cursor names an entry until the set next changes.
type cursor struct{ leaf, pos int }

func (s *set) at(c cursor) entry { return s.leaves[c.leaf].e[c.pos] }

// ceil finds the first entry that is not less than e.
func (s *set) ceil(e entry) (cursor, bool) {
	if s.count == 0 {
		return cursor{}, false
	}
	i := s.leafFor(e)
	l := s.leaves[i]
	pos := l.ceil(e)
	if pos == l.n {
		if i++; i == len(s.leaves) {
			return cursor{}, false
		}
		pos = 0
	}
	return cursor{i, pos}, true
}

// leafFor finds the last leaf whose first entry is not above e, or the first.
func (s *set) leafFor(e entry) int {
	lo, hi := 0, len(s.leaves)
	for hi-lo > 1 {
		mid := int(uint(lo+hi) >> 1)
		if e.less(s.leaves[mid].e[0]) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return lo
}

func (l *leaf) ceil(e entry) int {
	lo, hi := 0, l.n
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if l.e[mid].less(e) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func (s *set) next(c cursor) (cursor, bool) {
	if c.pos++; c.pos < s.leaves[c.leaf].n {
		return c, true
	}
	c = cursor{leaf: c.leaf + 1}
	return c, c.leaf < len(s.leaves)
}

func (s *set) prev(c cursor) (cursor, bool) {
	if c.pos > 0 {
		c.pos--
		return c, true
	}
	if c.leaf == 0 {
		return c, false
	}
	return cursor{c.leaf - 1, s.leaves[c.leaf-1].n - 1}, true
}

func (s *set) first() (cursor, bool) { return cursor{}, s.count > 0 }

func (s *set) last() (cursor, bool) {
	if s.count == 0 {
		return cursor{}, false
	}
	i := len(s.leaves) - 1
	return cursor{i, s.leaves[i].n - 1}, true
}

// insert adds e, which must not be in the set.
func (s *set) insert(e entry) {
	s.count++
	if len(s.leaves) == 0 {
		s.leaves = append(s.leaves, s.newLeaf())
	}
	i := s.leafFor(e)
	l := s.leaves[i]
	pos := l.ceil(e)
	if l.n == leafCap {
		right := s.splitLeaf(i)
		if pos > l.n {
			l, pos = right, pos-l.n
		}
	}
	copy(l.e[pos+1:l.n+1], l.e[pos:l.n])
	l.e[pos] = e
	l.n++
}

func (s *set) splitLeaf(i int) *leaf {
	l, right := s.leaves[i], s.newLeaf()
	right.n = copy(right.e[:], l.e[leafCap/2:])
	l.n = leafCap / 2
	s.leaves = append(s.leaves, nil)
	copy(s.leaves[i+2:], s.leaves[i+1:])
	s.leaves[i+1] = right
	return right
}

func (s *set) newLeaf() *leaf {
	if k := len(s.spare); k > 0 {
		l := s.spare[k-1]
		s.spare = s.spare[:k-1]
		l.n = 0
		return l
	}
	return new(leaf)
}

// remove takes out the entry of that size and address; false if there is none.
func (s *set) remove(size mem.Bytes, addr mem.Offset) bool {
	e := entry{size: size, addr: addr}
	c, ok := s.ceil(e)
	if !ok || e.less(s.at(c)) {
		return false
	}
	s.removeAt(c)
	return true
}

func (s *set) removeAt(c cursor) {
	l := s.leaves[c.leaf]
	s.count--
	copy(l.e[c.pos:l.n-1], l.e[c.pos+1:l.n])
	if l.n--; l.n == 0 {
		s.spare = append(s.spare, l)
		s.leaves = append(s.leaves[:c.leaf], s.leaves[c.leaf+1:]...)
	}
}

// appendBlocks appends the set's blocks, in order, to out: the way to walk a
// set that the walk itself changes.
func (s *set) appendBlocks(out []int32) []int32 {
	for _, l := range s.leaves {
		for _, e := range l.e[:l.n] {
			out = append(out, e.block)
		}
	}
	return out
}

// sorted reports whether the set keeps its own promises.
func (s *set) sorted() bool {
	var all []entry
	for _, l := range s.leaves {
		if l.n == 0 {
			return false
		}
		all = append(all, l.e[:l.n]...)
	}
	return len(all) == s.count &&
		sort.SliceIsSorted(all, func(i, j int) bool { return all[i].less(all[j]) })
}
