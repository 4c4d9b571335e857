package plan

import (
	"cmp"
	"math"
	"slices"
)

// tree answers the one question of a skyline descent: which box of best rank,
// among those not placed yet, lives within [lo, hi)? It is a kd-tree over the
// points (lo, hi) of the boxes, cut at the median by alternating axes, with the
// best rank and the bounds of the points in every node. It is built once a
// problem and refilled with new ranks at each descent.
type tree struct {
	nodes  []node  // a complete binary tree: children of i are 2i+1 and 2i+2
	leaves int     // the last nodes, each of a few points
	lo, hi []int32 // by place: points in the order of the leaves
	rank   []int32 // by place
	place  []int32 // by box
	first  []int32 // by leaf, and one more: where its places begin
}

type node struct {
	minLo, maxLo, minHi, maxHi int32
	best                       int32 // smallest rank below, or taken
}

// taken is the rank of a box that was placed.
const taken int32 = math.MaxInt32

// leafPoints is how many points a leaf holds at most: scanning eight is about
// as fast as descending one level more.
const leafPoints = 8

func newTree(lo, hi []int32) *tree {
	n := len(lo)
	t := &tree{leaves: 1, lo: make([]int32, n), hi: make([]int32, n), rank: make([]int32, n), place: make([]int32, n)}
	for t.leaves*leafPoints < n {
		t.leaves *= 2
	}
	t.nodes = make([]node, 2*t.leaves-1)
	t.first = make([]int32, t.leaves+1)
	boxes := make([]int32, n)
	for i := range boxes {
		boxes[i] = int32(i)
	}
	t.build(0, boxes, 0, lo, hi, false)
	t.first[t.leaves] = int32(n)
	return t
}

// build fills node i with boxes, whose places begin at first.
func (t *tree) build(i int, boxes []int32, first int32, lo, hi []int32, byHi bool) {
	nd := &t.nodes[i]
	*nd = node{math.MaxInt32, math.MinInt32, math.MaxInt32, math.MinInt32, taken}
	for _, b := range boxes {
		nd.minLo, nd.maxLo = min(nd.minLo, lo[b]), max(nd.maxLo, lo[b])
		nd.minHi, nd.maxHi = min(nd.minHi, hi[b]), max(nd.maxHi, hi[b])
	}
	if leaf := i - (t.leaves - 1); leaf >= 0 {
		t.first[leaf] = first
		for k, b := range boxes {
			at := first + int32(k)
			t.lo[at], t.hi[at], t.place[b] = lo[b], hi[b], at
		}
		return
	}
	slices.SortFunc(boxes, func(x, y int32) int {
		if byHi && hi[x] != hi[y] {
			return cmp.Compare(hi[x], hi[y])
		}
		if !byHi && lo[x] != lo[y] {
			return cmp.Compare(lo[x], lo[y])
		}
		return cmp.Compare(x, y)
	})
	half := len(boxes) / 2
	t.build(2*i+1, boxes[:half], first, lo, hi, !byHi)
	t.build(2*i+2, boxes[half:], first+int32(half), lo, hi, !byHi)
}

// refill gives the boxes their ranks: order[r] is the box of rank r.
func (t *tree) refill(order []int32) {
	for r, box := range order {
		t.rank[t.place[box]] = int32(r)
	}
	for leaf := range t.leaves {
		best := taken
		for at := t.first[leaf]; at < t.first[leaf+1]; at++ {
			best = min(best, t.rank[at])
		}
		t.nodes[t.leaves-1+leaf].best = best
	}
	for i := t.leaves - 2; i >= 0; i-- {
		t.nodes[i].best = min(t.nodes[2*i+1].best, t.nodes[2*i+2].best)
	}
}

// within returns the best rank of a box that lives within [lo, hi), or taken.
func (t *tree) within(lo, hi int32) int32 { return t.search(0, lo, hi, taken) }

// search returns the best rank below node i, if it is under bound, else bound.
func (t *tree) search(i int, lo, hi, bound int32) int32 {
	nd := &t.nodes[i]
	if nd.best >= bound || nd.maxLo < lo || nd.minHi > hi {
		return bound
	}
	if nd.minLo >= lo && nd.maxHi <= hi {
		return nd.best
	}
	if leaf := i - (t.leaves - 1); leaf >= 0 {
		for at := t.first[leaf]; at < t.first[leaf+1]; at++ {
			if t.rank[at] < bound && t.lo[at] >= lo && t.hi[at] <= hi {
				bound = t.rank[at]
			}
		}
		return bound
	}
	near, far := 2*i+1, 2*i+2
	if t.nodes[far].best < t.nodes[near].best {
		near, far = far, near
	}
	return t.search(far, lo, hi, t.search(near, lo, hi, bound))
}

// take removes a box.
func (t *tree) take(box int32) {
	at := t.place[box]
	was := t.rank[at]
	t.rank[at] = taken
	leaf := t.leafOf(at)
	best := taken
	for k := t.first[leaf]; k < t.first[leaf+1]; k++ {
		best = min(best, t.rank[k])
	}
	i := t.leaves - 1 + leaf
	for t.nodes[i].best == was {
		t.nodes[i].best = best
		if i == 0 {
			return
		}
		i = (i - 1) / 2
		best = min(t.nodes[2*i+1].best, t.nodes[2*i+2].best)
	}
}

// leafOf finds the leaf of a place by the halving that build did.
func (t *tree) leafOf(at int32) int {
	leaf, first, n := 0, 0, len(t.place)
	for width := t.leaves; width > 1; width /= 2 {
		half := n / 2
		leaf *= 2
		if int(at) < first+half {
			n = half
		} else {
			leaf++
			first += half
			n -= half
		}
	}
	return leaf
}
