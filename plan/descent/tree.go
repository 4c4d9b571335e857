package descent

import "math"

// tree answers the one question of a skyline descent: which box of best rank,
// among those not placed yet, lives within [lo, hi)? Boxes are numbered by their starts,
// so those that start within are a stretch of them, and every node of a complete binary
// tree over them has the best rank and the earliest end of those below it.
type tree struct {
	p      *Boxes
	nodes  []node  // the children of i are 2i and 2i+1, the root is 1
	leaves int32   // the last nodes, one a box
	first  []int32 // by tick, and one more: the first box that starts there or later
}

type node struct{ rank, end int32 }

// taken is the rank of a box that was placed.
const taken int32 = math.MaxInt32

func newTree(p *Boxes) *tree {
	t := &tree{p: p, leaves: 1, first: make([]int32, p.Ticks+1)}
	for int(t.leaves) < len(p.Lo) {
		t.leaves *= 2
	}
	t.nodes = make([]node, 2*t.leaves)
	for i, tick := range p.Lo {
		t.first[tick+1] = int32(i) + 1
	}
	for tick := range p.Ticks { // where nothing starts
		t.first[tick+1] = max(t.first[tick+1], t.first[tick])
	}
	return t
}

// refill gives boxes their ranks, and leaves out all others: order[r] is the box of rank r.
func (t *tree) refill(order []int32) {
	for i := range t.nodes {
		t.nodes[i] = node{taken, taken}
	}
	for r, box := range order {
		t.nodes[t.leaves+box] = node{int32(r), t.p.Hi[box]}
	}
	for i := t.leaves - 1; i > 0; i-- {
		t.nodes[i] = t.join(i)
	}
}

// join returns what a node says whose children do.
func (t *tree) join(i int32) node {
	a, b := t.nodes[2*i], t.nodes[2*i+1]
	return node{min(a.rank, b.rank), min(a.end, b.end)}
}

// within returns the best rank of a box that lives within [lo, hi), or taken.
func (t *tree) within(lo, hi int32) int32 {
	best := taken
	for i, j := t.leaves+t.first[lo], t.leaves+t.first[hi]; i < j; i, j = i/2, j/2 {
		if i&1 == 1 {
			best = t.search(i, hi, best)
			i++
		}
		if j&1 == 1 {
			j--
			best = t.search(j, hi, best)
		}
	}
	return best
}

// search returns the best rank below node i of a box that ends until hi, if it is under bound,
// else bound.
func (t *tree) search(i, hi, bound int32) int32 {
	nd := t.nodes[i]
	if nd.rank >= bound || nd.end > hi {
		return bound
	}
	if i >= t.leaves {
		return nd.rank
	}
	near := 2 * i
	if t.nodes[near+1].rank < t.nodes[near].rank {
		near++
	}
	return t.search(near^1, hi, t.search(near, hi, bound))
}

// take removes a box.
func (t *tree) take(box int32) {
	i, now := t.leaves+box, node{taken, taken}
	for t.nodes[i] != now {
		t.nodes[i] = now
		if i /= 2; i == 0 {
			return
		}
		now = t.join(i)
	}
}
