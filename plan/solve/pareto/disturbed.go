package pareto

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"stalloc/internal/mem"
	"stalloc/plan/solve/dsa"
)

// Disturbance is what a replay has that its plan does not know of.
type Disturbance struct {
	Name string
	// Late is the share of buffers that die late, by up to a hundredth of the step.
	Late float64
	// Noise is the share of requests that are left out or inserted, as many of each. An inserted
	// one has the size and the length of life of some buffer.
	Noise float64
}

// Disturbances are those that a front is judged by.
var Disturbances = []Disturbance{
	{Name: "0.3 % noise", Noise: 0.003}, {Name: "1 % noise", Noise: 0.01},
	{Name: "1 % late", Late: 0.01}, {Name: "10 % late", Late: 0.1},
}

// replays is how many a point is judged by: what is disturbed is random.
const replays = 10

// unplanned is the offset of a buffer that no plan knows.
const unplanned = -1

// Disturbed replays each point with a disturbance, and returns by point how much higher than the
// load of what was replayed the replays end on average.
func Disturbed(p *dsa.Problem, points []Point, by Disturbance, seed uint64) []float64 {
	e := newEvaluator(p)
	placed := make([][]mem.Offset, len(points))
	for i, x := range points {
		placed[i] = e.place(x.Genome)
	}
	above := make([]float64, len(points))
	for replay := range uint64(replays) { // disturbed alike for every point
		buffers, of := e.disturb(by, rand.New(rand.NewPCG(seed, replay)))
		load := float64(dsa.Compress(&dsa.Problem{Buffers: buffers}).Bound)
		if load == 0 {
			continue // all that takes memory was left out, and so nothing ends higher
		}
		planned := make([]mem.Offset, len(buffers))
		for i := range points {
			for k, buffer := range of {
				planned[k] = unplanned
				if buffer != unplanned {
					planned[k] = placed[i][buffer]
				}
			}
			above[i] += (float64(serve(buffers, planned))/load - 1) / replays
		}
	}
	return above
}

// disturb returns the buffers of a replay, and which of the plan's each is.
func (e *evaluator) disturb(by Disturbance, rng *rand.Rand) (buffers []dsa.Buffer, of []int) {
	for i, b := range e.p.Buffers {
		delay := 1 + mem.Tick(rng.Float64()*lateShare*float64(e.end))
		if rng.Float64() < by.Late && !b.Empty() {
			b.Upper += delay
		}
		like := e.p.Buffers[rng.IntN(len(e.p.Buffers))]
		x := rng.Float64()
		if x >= by.Noise/2 {
			buffers, of = append(buffers, b), append(of, i)
		}
		if x < by.Noise && x >= by.Noise/2 && !b.Empty() && !like.Empty() {
			upper := min(b.Lower+like.Upper-like.Lower, e.end)
			buffers, of = append(buffers, dsa.Buffer{Lower: b.Lower, Upper: upper,
				Size: like.Size}), append(of, unplanned)
		}
	}
	return buffers, of
}

// live is a buffer that is being replayed.
type live struct {
	from, to mem.Bytes
	upper    mem.Tick
}

// serve places buffers when they begin, each at its planned offset, or the lowest place that is
// free if it has none or another is still there, and returns where the highest ended.
func serve(buffers []dsa.Buffer, planned []mem.Offset) (top mem.Bytes) {
	order := make([]int, 0, len(buffers))
	for i, b := range buffers {
		if !b.Empty() {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order,
		func(a, b int) int { return cmp.Compare(buffers[a].Lower, buffers[b].Lower) })
	var now []live // in the order of addresses
	for _, i := range order {
		b := buffers[i]
		now = slices.DeleteFunc(now, func(x live) bool { return x.upper <= b.Lower })
		at := mem.Bytes(planned[i])
		k := firstAt(now, at)
		if at == unplanned || k > 0 && now[k-1].to > at || k < len(now) && now[k].from < at+b.Size {
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

// firstAt returns the first that lies at an address or above.
func firstAt(now []live, at mem.Bytes) int {
	k, _ := slices.BinarySearchFunc(now, at,
		func(x live, at mem.Bytes) int { return cmp.Compare(x.from, at) })
	return k
}
