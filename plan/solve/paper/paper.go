// Package paper is the planner of the STAlloc paper (arXiv 2507.16274, section on plan synthesis),
// written from its description, for comparisons.
//
// # Idea
//
// Blocks that begin in the same phase of computation and end in the same phase are a homophase
// group: one rectangle, as wide as the group's lifetime and as high as the sum of its sizes. A
// group is kept if its blocks fill it: their time-memory product is at least 0.7 of the
// rectangle's. Two groups that overlap partly may be fused: one is placed into the staircase that
// the other frees. Rectangles, largest first, go into idle times of layers (bands of addresses), or
// open new layers, by interval scheduling. The remaining blocks go into the gaps of the layers,
// largest first.
//
// The paper's profiler marks phases; a problem has none. They are inferred from the blocks: a phase
// in which long-lived blocks begin lasts until the first of them ends, and then another begins.
// Several thresholds for "long" are tried, as the paper's planner tries variants, and the lowest
// plan is kept.
package paper

import (
	"slices"

	"stalloc/plan/solve/dsa"
	"stalloc/plan/solve/firstfit"
)

const (
	leastOccupancy = 0.7 // of a group that is kept
	leastMembers   = 2
)

// planner makes one plan.
type planner struct {
	in   *dsa.Instance
	w    *dsa.Work
	at   []int64
	base int64 // above what lives throughout
	done []bool
}

// Run tries single blocks, and groups of lives of at least 1/256, 1/128, ... of the time.
func Run(in *dsa.Instance, w *dsa.Work, _ int64, _ uint64, _ []int64) {
	if in.Align != nil || in.Pin != nil {
		firstfit.First(in, w, 0, 0, nil) // a group is a stack of rectangles that may lie anywhere
		return
	}
	plan := func(least int32) {
		p := &planner{in: in, w: w, at: make([]int64, len(in.IDs)), done: make([]bool, len(in.IDs))}
		p.plan(least)
	}
	plan(0)
	for least := max(in.Ticks/256, 2); least < in.Ticks && !w.Over(); least *= 2 {
		plan(least)
	}
}

func (p *planner) plan(least int32) {
	n := len(p.in.IDs)
	if !p.w.Do(int64(n)) {
		return
	}
	p.persistent()
	if least > 0 {
		groups := p.dissolve(p.homophase(least))
		groups = p.fuse(groups)
		p.layers(groups)
	}
	place := firstfit.New(p.in)
	for box := range int32(n) {
		if p.done[box] {
			place.Put(box, p.at[box])
		}
	}
	top := p.in.Top(p.at)
	paid := int64(0)
	for _, box := range firstfit.BySize(p.in) {
		if !p.done[box] {
			p.at[box] = place.Place(box)
			top = max(top, p.at[box]+p.in.Size[box])
		}
		if looked := place.Looked - paid; looked > 1<<14 {
			paid = place.Looked
			if !p.w.Do(looked / 16) {
				return
			}
		}
	}
	p.w.Found(p.at, top)
}

// persistent stacks what lives throughout.
func (p *planner) persistent() {
	for box := range p.at {
		if p.in.Lo[box] == 0 && p.in.Hi[box] == p.in.Ticks && p.in.Whole(int32(box)) {
			p.at[box], p.done[box] = p.base, true
			p.base += p.in.Size[box]
		}
	}
}

// block is some boxes that are placed as one rectangle.
type block struct {
	lo, hi int32
	height int64
	used   float64 // time-memory product of the boxes
	boxes  []int32
	inner  []int64 // by box: its offset in the block
}

func (b *block) occupancy() float64 { return b.used / (float64(b.height) * float64(b.hi-b.lo)) }

// homophase groups long lives by the phases in which they begin and end. A box with gaps is of no
// group: it goes into what the layers leave.
func (p *planner) homophase(least int32) []*block {
	starts, ends := make([]bool, p.in.Ticks+1), make([]bool, p.in.Ticks+1)
	long := func(box int) bool {
		return !p.done[box] && p.in.Hi[box]-p.in.Lo[box] >= least && p.in.Whole(int32(box))
	}
	for box := range p.at {
		if long(box) {
			starts[p.in.Lo[box]], ends[p.in.Hi[box]] = true, true
		}
	}
	begun, ended := make([]int32, len(starts)), make([]int32, len(starts)) // the phase, by tick
	now, ending := int32(0), false
	for t := range starts {
		if ends[t] && !ending {
			now, ending = now+1, true
		}
		ended[t] = now
		if starts[t] && ending {
			now, ending = now+1, false
		}
		begun[t] = now
	}
	var groups []*block
	index := map[[2]int32]*block{}
	for box := range p.at {
		if !long(box) {
			continue
		}
		key := [2]int32{begun[p.in.Lo[box]], ended[p.in.Hi[box]]}
		g := index[key]
		if g == nil {
			g = &block{lo: p.in.Lo[box]}
			index[key] = g
			groups = append(groups, g)
		}
		p.add(g, int32(box), g.height)
	}
	return groups
}

// add puts a box into a block.
func (p *planner) add(b *block, box int32, at int64) {
	b.boxes, b.inner = append(b.boxes, box), append(b.inner, at)
	if len(b.boxes) == 1 {
		b.lo, b.hi = p.in.Lo[box], p.in.Hi[box]
	}
	b.lo, b.hi = min(b.lo, p.in.Lo[box]), max(b.hi, p.in.Hi[box])
	b.height = max(b.height, at+p.in.Size[box])
	b.used += float64(p.in.Size[box]) * float64(p.in.Hi[box]-p.in.Lo[box])
}

// dissolve leaves out groups that waste too much.
func (p *planner) dissolve(groups []*block) []*block {
	return slices.DeleteFunc(groups, func(g *block) bool {
		return len(g.boxes) < leastMembers ||
			g.occupancy() < leastOccupancy
	})
}
