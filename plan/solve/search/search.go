// Package search is our own solver: it looks for the lowest placement for as long as it is given
// work for, the quickest ways first.
//
// # Idea
//
// One descent (package descent) is as low as can be on most training steps, and takes a microsecond
// a buffer. Where five of them are not, first fit is tried, largest first, with several orders
// among equals; then what is small is searched exactly (package exact). What is left are large
// problems of few sizes: virtual pipelines. There a hill is climbed, over the order in which the
// sizes are placed and how equals are ordered (classes.go), and over the weights of descents
// (climb.go).
package search

import (
	"math/bits"

	"stalloc/plan/descent"
	"stalloc/plan/solve/dsa"
	"stalloc/plan/solve/exact"
	"stalloc/plan/solve/firstfit"
)

// Descents does what a live run does: descents by five priorities, or first fit where boxes are no
// plain rectangles, of which a descent knows nothing.
func Descents(in *dsa.Instance, w *dsa.Work, capacity int64, seed uint64, warm []int64) {
	if !in.Plain() {
		firstfit.First(in, w, capacity, seed, warm)
		return
	}
	d := newDescents(in, w)
	for _, weights := range descent.Portfolio {
		if w.Over() || !d.try(weights) {
			return
		}
	}
}

// descents are descents of one instance.
type descents struct {
	in   *dsa.Instance
	w    *dsa.Work
	sky  *descent.Descent
	rank *descent.Ranker
	at   []int64
}

func newDescents(in *dsa.Instance, w *dsa.Work) *descents {
	d := &descents{in: in, w: w, sky: descent.NewDescent(in.Boxes),
		rank: descent.NewRanker(in.Boxes), at: make([]int64, len(in.IDs))}
	d.sky.Ask = w.Do
	return d
}

// try makes one descent, and reports whether there was work enough for it.
func (d *descents) try(weights descent.Weights) bool {
	order, ok := d.order(d.rank.All, weights)
	if !ok {
		return false
	}
	const unplaced = -1
	for i := range d.at {
		d.at[i] = unplaced
	}
	top := d.sky.Fill(order, 0, 1<<62, d.at)
	for _, at := range d.at {
		if at == unplaced { // the work was over
			return false
		}
	}
	d.w.Found(d.at, top)
	return !d.w.Over()
}

// order ranks boxes, and reports whether there was work enough for it.
func (d *descents) order(boxes []int32, weights descent.Weights) (order []int32, ok bool) {
	// It is a sort.
	if n := int64(len(boxes)); !d.w.Do(1 + n/8*int64(bits.Len64(uint64(n)))/8) {
		return nil, false
	}
	return d.rank.RankSome(boxes, weights), true
}

// Run looks until the work is over, or an exact search has proved that there is no better.
func Run(in *dsa.Instance, w *dsa.Work, capacity int64, seed uint64, warm []int64) {
	Descents(in, w, capacity, seed, warm)
	if w.Over() {
		return
	}
	classes := newClasses(in, w, seed)
	if warm != nil {
		classes.follow(warm)
	}
	if classes.start(); w.Over() {
		return
	}
	if exact.Small(in) {
		s := exact.New(in)
		if capacity > 0 {
			at, solved := s.Race(capacity, seed, w)
			if solved && at != nil {
				w.Found(at, in.Top(at))
			}
			w.None = solved && at == nil
			return
		}
		const stallLimit = 12
		if exact.Least(s, w, seed, stallLimit); w.Over() || w.Least {
			return
		}
		s = nil
	}
	var climb *climb // of what is plain
	var eject *eject // of what is plain and not large: it looks at all boxes again and again
	if in.Plain() {
		climb = newClimb(in, w, seed)
		if len(in.IDs) < leastWindows*windowBoxes {
			eject = newEject(in, w, seed)
		}
	}
	// Each has its turn, which are longer and longer. One that is far behind another has none.
	for turn := int64(1); !w.Over(); turn++ {
		share := turn << 20
		near := climb != nil && (climb.low == 0 || climb.low <= w.Top+w.Top/64)
		if !near || !classes.behind() {
			classes.climb(share)
		}
		if near {
			climb.climb(share)
		}
		if eject != nil {
			eject.climb(share)
		}
	}
}
