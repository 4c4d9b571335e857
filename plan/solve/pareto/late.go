package pareto

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"stalloc/internal/mem"
	"stalloc/plan/solve/dsa"
)

// lateReplays is how many replays a point is judged by: who dies late is random.
const lateReplays = 5

// WhenLate replays each point with a share of the buffers dying late, by up to a hundredth of the step, and
// returns by point how much higher than the load the replays end on average.
func WhenLate(p *dsa.Problem, points []Point, rate float64, seed uint64) []float64 {
	e := newEvaluator(p)
	above := make([]float64, len(points))
	for i, x := range points {
		offsets := e.place(x.Genome)
		for replay := range uint64(lateReplays) { // the same are late for every point
			rng := rand.New(rand.NewPCG(seed, replay))
			late := slices.Clone(p.Buffers)
			for k := range late {
				delay := mem.Tick(rng.Float64() * lateShare * float64(e.end))
				if rng.Float64() < rate && !late[k].Empty() {
					late[k].Upper += 1 + delay
				}
			}
			above[i] += (float64(serve(late, offsets))/float64(dsa.Compress(&dsa.Problem{Buffers: late}).Bound) - 1) / lateReplays
		}
	}
	return above
}

// live is a buffer that is being replayed.
type live struct {
	from, to mem.Bytes
	upper    mem.Tick
}

// serve places buffers when they begin, each at its planned offset, or the lowest place that is free if
// another is still there, and returns where the highest ended.
func serve(buffers []dsa.Buffer, planned []mem.Offset) (top mem.Bytes) {
	order := make([]int, 0, len(buffers))
	for i, b := range buffers {
		if !b.Empty() {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(buffers[a].Lower, buffers[b].Lower) })
	var now []live // in the order of addresses
	for _, i := range order {
		b := buffers[i]
		now = slices.DeleteFunc(now, func(x live) bool { return x.upper <= b.Lower })
		at := mem.Bytes(planned[i])
		k := behind(now, at)
		if k > 0 && now[k-1].to > at || k < len(now) && now[k].from < at+b.Size {
			at = 0
			for k = 0; k < len(now) && now[k].from < at+b.Size; k++ {
				at = now[k].to
			}
		}
		now = slices.Insert(now, k, live{at, at + b.Size, b.Upper})
		top = max(top, at+b.Size)
	}
	return top
}

// behind returns the first that lies at an address or above.
func behind(now []live, at mem.Bytes) int {
	k, _ := slices.BinarySearchFunc(now, at, func(x live, at mem.Bytes) int { return cmp.Compare(x.from, at) })
	return k
}
