package search

import (
	"math"
	"math/rand/v2"
	"slices"

	"stalloc/plan/solve/dsa"
)

// eject is ejection search (after Nagata and Bräysy's for routes, Operations Research Letters 2009)
// below a limit that the best placement ends above. What ends above it is taken out, and put back
// one by one, the last taken out first, each where it costs least: nothing where it fits, or else
// what lies there, which is taken out in turn. Whatever has to make room for itself costs more from
// then on, so that boxes that are hard to place settle, and easy ones move. Only what is in the way
// moves: structure that took long to find is kept, which no order of all boxes does.
type eject struct {
	in    *dsa.Instance
	w     *dsa.Work
	rng   *rand.Rand
	limit int64
	at    []int64
	price []float64
	low   []edge // of what is placed, by where it begins
	high  []edge // by where it ends
	wait  []int32
}

// edge is where a box begins or ends.
type edge struct {
	at     int64
	price  float64
	lo, hi int32
	box    int32
}

func newEject(in *dsa.Instance, w *dsa.Work, seed uint64) *eject {
	return &eject{in: in, w: w, rng: rand.New(rand.NewPCG(seed, 3)), limit: math.MaxInt64,
		price: make([]float64, len(in.IDs))}
}

// worth is what it costs to take out a box at first: the root of bytes times life. With the
// product, one long box takes out hundreds of short ones; with none, large ones are taken out like
// small.
func (e *eject) worth(box int32) float64 {
	return math.Sqrt(float64(e.in.Size[box]) * float64(e.in.Hi[box]-e.in.Lo[box]))
}

// climb goes on for so many units, with ever lower limits.
func (e *eject) climb(units int64) {
	for end := e.w.Spent + units; e.w.Spent < end && !e.w.Over(); {
		if e.w.Top <= e.limit {
			e.begin()
		}
		if len(e.wait) > 0 {
			e.step()
		} else {
			e.w.Found(e.at, e.in.Top(e.at))
		}
	}
}

// begin aims an eighth closer to the bound than the best placement, from there.
func (e *eject) begin() {
	e.limit = e.w.Top - max((e.w.Top-e.in.Bound)/8, 1)
	e.at = append(e.at[:0], e.w.At...)
	e.low, e.high, e.wait = e.low[:0], e.high[:0], e.wait[:0]
	e.w.Do(int64(len(e.at)))
	for box := range e.price {
		e.price[box] = max(e.price[box], e.worth(int32(box)))
		if e.at[box]+e.in.Size[box] > e.limit {
			e.wait = append(e.wait, int32(box))
			continue
		}
		e.low = append(e.low, e.edge(int32(box), e.at[box]))
		e.high = append(e.high, e.edge(int32(box), e.at[box]+e.in.Size[box]))
	}
	slices.SortFunc(e.low, edge.compare)
	slices.SortFunc(e.high, edge.compare)
}

// step puts a box back.
func (e *eject) step() {
	box := e.wait[len(e.wait)-1]
	e.wait = e.wait[:len(e.wait)-1]
	at, free := e.cheapest(box)
	if !free {
		e.price[box] += e.worth(box)
		e.clear(box, at)
	}
	e.at[box] = at
	insert(&e.low, e.edge(box, at))
	insert(&e.high, e.edge(box, at+e.in.Size[box]))
}

// cheapest sweeps over all offsets at which a box lies on the bottom or on another, and returns the
// lowest at which nothing is in its way, or else one at which that costs least.
func (e *eject) cheapest(box int32) (best int64, free bool) {
	lo, hi, size := e.in.Lo[box], e.in.Hi[box], e.in.Size[box]
	least, equals := math.Inf(1), 0
	cost, met := 0.0, 0 // of what lies in [at, at+size), and how much that is
	low, high := e.low, e.high
	for at := int64(0); at <= e.limit-size; {
		for ; len(low) > 0 && low[0].at < at+size; low = low[1:] {
			if low[0].lives(lo, hi) {
				cost, met = cost+low[0].price, met+1
			}
		}
		switch {
		case met == 0:
			e.pay(low, high)
			return at, true
		case cost < least:
			best, least, equals = at, cost, 1
		case cost == least:
			if equals++; e.rng.IntN(equals) == 0 {
				best = at
			}
		}
		for len(high) > 0 && (high[0].at <= at || !high[0].lives(lo, hi)) {
			high = high[1:]
		}
		if len(high) == 0 {
			break
		}
		at = high[0].at
		for ; len(high) > 0 && high[0].at == at; high = high[1:] {
			if high[0].lives(lo, hi) {
				cost, met = cost-high[0].price, met-1
			}
		}
	}
	e.pay(low, high)
	return best, false
}

// pay counts the edges that were looked at.
func (e *eject) pay(low, high []edge) {
	const edgesAUnit = 16
	e.w.Do(1 + int64(2*len(e.low)-len(low)-len(high))/edgesAUnit)
}

// clear takes out what is in the way of a box.
func (e *eject) clear(box int32, at int64) {
	lo, hi, end := e.in.Lo[box], e.in.Hi[box], at+e.in.Size[box]
	was := len(e.wait)
	for _, x := range e.low {
		if x.at >= end {
			break
		}
		if x.lives(lo, hi) && x.at+e.in.Size[x.box] > at {
			e.wait = append(e.wait, x.box)
		}
	}
	for _, other := range e.wait[was:] {
		remove(&e.low, e.edge(other, e.at[other]))
		remove(&e.high, e.edge(other, e.at[other]+e.in.Size[other]))
	}
}

func (e *eject) edge(box int32, at int64) edge {
	return edge{at, e.price[box], e.in.Lo[box], e.in.Hi[box], box}
}

func (x edge) lives(lo, hi int32) bool { return x.lo < hi && lo < x.hi }

func (x edge) compare(y edge) int {
	switch {
	case x.at != y.at && x.at < y.at, x.at == y.at && x.box < y.box:
		return -1
	case x.at == y.at && x.box == y.box:
		return 0
	}
	return 1
}

func insert(edges *[]edge, x edge) {
	k, _ := slices.BinarySearchFunc(*edges, x, edge.compare)
	*edges = slices.Insert(*edges, k, x)
}

func remove(edges *[]edge, x edge) {
	k, _ := slices.BinarySearchFunc(*edges, x, edge.compare)
	*edges = slices.Delete(*edges, k, k+1)
}
