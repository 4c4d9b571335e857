package search

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"stalloc/plan/solve/dsa"
	"stalloc/plan/solve/firstfit"
)

// classes is first fit in an order of classes: boxes of one size are a class, or those with nearly
// the same number of bits if there are too many sizes. A class has a key, the largest is placed
// first, and an order among its boxes. A step has thousands of boxes and some dozens of sizes, so
// that hundreds of passes find what thousands of moves of single boxes do not.
type classes struct {
	in    *dsa.Instance
	w     *dsa.Work
	rng   *rand.Rand
	place *firstfit.Placer
	of    []int32 // by box: its class
	best  []gene  // by class
	next  []gene
	low   int64 // where the best ended
	order []int32
	at    []int64
}

type gene struct {
	key float64
	tie tie
}

// tie is the order of the boxes of a class.
type tie int

const (
	firstStart tie = iota
	lastStart
	firstEnd
	lastEnd
	longest
	ties
)

const mostClasses = 256

func newClasses(in *dsa.Instance, w *dsa.Work, seed uint64) *classes {
	n := len(in.IDs)
	c := &classes{in: in, w: w, rng: rand.New(rand.NewPCG(seed, 1)), place: firstfit.New(in),
		of:    make([]int32, n),
		order: make([]int32, n), at: make([]int64, n)}
	sizes := slices.Compact(slices.Sorted(slices.Values(in.Size)))
	each := (len(sizes) + mostClasses - 1) / mostClasses
	for box, size := range in.Size {
		rank, _ := slices.BinarySearch(sizes, size)
		c.of[box] = int32(rank / each)
		c.order[box] = int32(box)
	}
	c.best = make([]gene, (len(sizes)-1)/each+1)
	c.next = make([]gene, len(c.best))
	for i := range c.best {
		c.best[i].key = float64(i)
	}
	return c
}

// follow places boxes as they lay in an older placement, from the bottom up.
func (c *classes) follow(warm []int64) {
	slices.SortFunc(c.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(warm[a], warm[b]),
			cmp.Compare(a, b))
	})
	if top, ok := c.place.All(c.order, c.at, c.w, 0); ok {
		c.w.Found(c.at, top)
	}
}

// start tries the largest first, with each order among equals, if it is not far from the best.
func (c *classes) start() {
	for t := range ties {
		for i := range c.next {
			c.next[i] = gene{float64(i), t}
		}
		if c.try(); c.w.Over() || c.behind() {
			return
		}
	}
}

// behind reports whether it is so far from the best that its passes are better spent elsewhere.
func (c *classes) behind() bool { return c.low > c.w.Top+c.w.Top/64 }

// try places all by the next genes, and keeps them if they are as low as the best.
func (c *classes) try() {
	n := int64(len(c.order))
	if !c.w.Do(1 + n/4) {
		return
	}
	slices.SortFunc(c.order, c.compare)
	limit := int64(0)
	if c.low > 0 {
		limit = c.low + 1
	}
	top, ok := c.place.All(c.order, c.at, c.w, limit)
	if !ok {
		return
	}
	c.low = top
	copy(c.best, c.next)
	c.w.Found(c.at, top)
}

func (c *classes) compare(a, b int32) int {
	in := c.in
	x, y := c.next[c.of[a]], c.next[c.of[b]]
	if d := cmp.Or(cmp.Compare(y.key, x.key), cmp.Compare(in.Size[b], in.Size[a])); d != 0 {
		return d
	}
	d := 0
	switch x.tie {
	case lastStart:
		d = cmp.Compare(in.Lo[b], in.Lo[a])
	case firstEnd:
		d = cmp.Compare(in.Hi[a], in.Hi[b])
	case lastEnd:
		d = cmp.Compare(in.Hi[b], in.Hi[a])
	case longest:
		d = cmp.Compare(in.Hi[b]-in.Lo[b], in.Hi[a]-in.Lo[a])
	}
	return cmp.Or(d, cmp.Compare(a, b))
}

// climb changes a few genes at a time, for so many units.
func (c *classes) climb(units int64) {
	for end := c.w.Spent + units; c.w.Spent < end && !c.w.Over(); {
		copy(c.next, c.best)
		for range 1 + c.rng.IntN(3) {
			g := &c.next[c.rng.IntN(len(c.next))]
			switch c.rng.IntN(3) {
			case 0:
				g.tie = tie(c.rng.IntN(int(ties)))
			case 1:
				g.key += c.rng.NormFloat64() * (1 + float64(len(c.next))/8)
			case 2:
				g.key = c.next[c.rng.IntN(len(c.next))].key
			}
		}
		c.try()
	}
}
