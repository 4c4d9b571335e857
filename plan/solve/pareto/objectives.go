// Package pareto looks for the front of placements of one problem: those of which none is better in
// everything.
//
// # Objectives
//
// All are to be small. Memory: where the highest buffer ends, above the peak load. Handles: units
// of physical memory that any buffer touches. Moved: bytes of buffers that lie elsewhere than in
// the plan before, the one that a live run makes. Late: bytes of buffers, as a share of all, that
// spoil the placement if they die a hundredth of the step later: another begins by then on a byte
// of theirs.
//
// # What is searched
//
// A placement is a descent (package descent) by weights of five features, a weight of where a
// buffer lay before, and a margin: buffers are placed as if they lived so much longer. Three
// searches have the same number of descents: MaOEA-CS (arXiv 1806.02967), weighted sums, and random
// search.
package pareto

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
	"stalloc/plan/descent"
	"stalloc/plan/solve/dsa"
)

// Objectives is how many there are, and Names what they are called.
const Objectives = 4

// Names are the objectives, in their order.
var Names = [Objectives]string{"memory", "handles", "moved", "late"}

// Notes explain the names.
const Notes = "memory: top / peak load - 1; handles: of 2 MiB that are touched, above the least; moved: share of bytes that lie elsewhere\n" +
	"than in a live run's plan; late: share of bytes whose place is taken again within 1 % of the step; noise, 1 % late: top / peak\n" +
	"load - 1 of replays with so many requests left out or inserted, or so many buffers that die late, by up to 1 % of the step\n"

// Values are what a placement comes to.
type Values [Objectives]float64

const genes = descent.Features + 2

// Genome is what a placement is made by: weights, the weight of the place before, and the margin.
type Genome [genes]float64

// Point is a placement.
type Point struct {
	Genome Genome
	Values Values
}

// evaluator makes placements of one problem and judges them.
type evaluator struct {
	p      *dsa.Problem
	in     *dsa.Instance
	old    []mem.Offset
	end    mem.Tick
	total  float64 // bytes
	byTime []int   // buffers by their starts
	spent  int
}

// mostMargin is a share of the step.
const mostMargin = 0.05

func newEvaluator(p *dsa.Problem) *evaluator {
	e := &evaluator{p: p, in: dsa.Compress(p), old: descent.Place(p.Buffers, nil, 0).Offsets}
	for i, b := range p.Buffers {
		e.end = max(e.end, b.Upper)
		e.total += float64(b.Size)
		e.byTime = append(e.byTime, i)
	}
	slices.SortStableFunc(e.byTime,
		func(a, b int) int { return int(p.Buffers[a].Lower - p.Buffers[b].Lower) })
	return e
}

// place makes the placement of a genome.
func (e *evaluator) place(g Genome) []mem.Offset {
	buffers := e.p.Buffers
	if margin := mem.Tick(max(g[genes-1], 0) * mostMargin * float64(e.end)); margin > 0 {
		buffers = slices.Clone(buffers)
		for i := range buffers {
			if !buffers[i].Empty() {
				buffers[i].Upper = max(min(buffers[i].Upper+margin, e.end), buffers[i].Upper)
			}
		}
	}
	boxes := descent.Compress(buffers)
	order := slices.Clone(descent.NewRanker(boxes).Rank(descent.Weights(g[:descent.Features])))
	if stay := g[descent.Features]; stay != 0 {
		key := make([]float64, len(order))
		top := float64(e.in.Bound)
		for rank, box := range order {
			key[box] = float64(rank)/float64(len(order)) + stay*float64(e.old[boxes.IDs[box]])/top
		}
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(key[a], key[b]) })
	}
	at := make([]int64, len(order))
	descent.NewDescent(boxes).Fill(order, 0, 1<<62, at)
	offsets := make([]mem.Offset, len(buffers))
	for box, id := range boxes.IDs {
		offsets[id] = mem.Offset(at[box])
	}
	return offsets
}

// judge makes a point of a genome.
func (e *evaluator) judge(g Genome) Point {
	e.spent++
	offsets := e.place(g)
	return Point{g, e.values(offsets)}
}

func (e *evaluator) values(offsets []mem.Offset) Values {
	top, moved := mem.Bytes(0), 0.0
	touched := make([][2]mem.Bytes, 0, len(offsets)) // from a handle to another, the last included
	for i, b := range e.p.Buffers {
		if b.Empty() {
			continue
		}
		from, to := mem.Bytes(offsets[i]), mem.Bytes(offsets[i])+b.Size
		top = max(top, to)
		touched = append(touched, [2]mem.Bytes{from / mem.HandleSize, (to - 1) / mem.HandleSize})
		if offsets[i] != e.old[i] {
			moved += float64(b.Size)
		}
	}
	least := (mem.Bytes(e.in.Bound) + mem.HandleSize - 1) / mem.HandleSize
	return Values{float64(top)/float64(e.in.Bound) - 1,
		float64(handles(touched))/float64(least) - 1, moved / e.total, e.late(offsets) / e.total}
}

// handles counts those that any range touches. Ranges may have any number of them.
func handles(ranges [][2]mem.Bytes) (n mem.Bytes) {
	slices.SortFunc(ranges, func(a, b [2]mem.Bytes) int { return cmp.Compare(a[0], b[0]) })
	next := mem.Bytes(0) // behind those that were counted
	for _, r := range ranges {
		n += max(r[1]+1-max(r[0], next), 0)
		next = max(next, r[1]+1)
	}
	return n
}

// lateShare is how much of the step a buffer lives longer than expected.
const lateShare = 0.01

// late returns the bytes of buffers that others follow too soon.
func (e *evaluator) late(offsets []mem.Offset) (bytes float64) {
	margin := mem.Tick(max(lateShare*float64(e.end), 1))
	type dead struct {
		buffer int
		until  mem.Tick
	}
	var waiting []int // by their ends
	for i, b := range e.p.Buffers {
		if !b.Empty() {
			waiting = append(waiting, i)
		}
	}
	slices.SortStableFunc(waiting,
		func(a, b int) int { return int(e.p.Buffers[a].Upper - e.p.Buffers[b].Upper) })
	var recent []dead
	for _, i := range e.byTime {
		b := e.p.Buffers[i]
		for len(waiting) > 0 && e.p.Buffers[waiting[0]].Upper <= b.Lower {
			recent = append(recent, dead{waiting[0], e.p.Buffers[waiting[0]].Upper + margin})
			waiting = waiting[1:]
		}
		kept := recent[:0]
		for _, d := range recent {
			from, to := offsets[d.buffer], offsets[d.buffer]+mem.Offset(e.p.Buffers[d.buffer].Size)
			switch {
			case d.until <= b.Lower:
			case !b.Empty() && offsets[i] < to && from < offsets[i]+mem.Offset(b.Size):
				bytes += float64(e.p.Buffers[d.buffer].Size)
			default:
				kept = append(kept, d)
			}
		}
		recent = kept
	}
	return bytes
}

// dominates reports whether a is no worse in anything and better in something.
func dominates(a, b Values) bool {
	better := false
	for k := range a {
		if a[k] > b[k] {
			return false
		}
		better = better || a[k] < b[k]
	}
	return better
}

// Front returns the points that no other dominates, one of equals, by rising memory.
func Front(points []Point) (front []Point) {
	for i, p := range points {
		out := slices.ContainsFunc(points,
			func(o Point) bool { return dominates(o.Values, p.Values) })
		out = out || slices.ContainsFunc(points[:i],
			func(o Point) bool { return o.Values == p.Values })
		if !out {
			front = append(front, p)
		}
	}
	slices.SortStableFunc(front,
		func(a, b Point) int { return slices.Compare(a.Values[:], b.Values[:]) })
	return front
}

// Hypervolume returns the share of the box below a worst point that a front dominates.
func Hypervolume(front []Point, worst Values) float64 {
	var inside []Values
	whole := 1.0
	for _, w := range worst {
		whole *= w
	}
	for _, p := range front {
		in := true
		for k := range p.Values {
			in = in && p.Values[k] < worst[k]
		}
		if in {
			inside = append(inside, p.Values)
		}
	}
	return volume(inside, worst, Objectives-1) / whole
}

// volume slices along one objective after another (hypervolume by slicing objectives, While et al.
// 2006).
func volume(points []Values, worst Values, k int) (sum float64) {
	if k == 0 {
		least := worst[0]
		for _, p := range points {
			least = min(least, p[0])
		}
		return worst[0] - least
	}
	slices.SortFunc(points, func(a, b Values) int {
		return cmp.Compare(a[k], b[k])
	})
	for i := range points {
		next := worst[k]
		if i+1 < len(points) {
			next = points[i+1][k]
		}
		if next > points[i][k] {
			sum += (next - points[i][k]) * volume(slices.Clone(points[:i+1]), worst, k-1)
		}
	}
	return sum
}
