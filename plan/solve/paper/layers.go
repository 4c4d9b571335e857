package paper

import (
	"cmp"
	"slices"
)

// mostPartners is how many groups after one it is tried to fuse it with.
const mostPartners = 8

// fuse lays groups into the staircases of others that they overlap in part, the earliest first, as
// long as the one that comes of it is filled better than both would be.
func (p *planner) fuse(groups []*block) []*block {
	slices.SortStableFunc(groups, func(a, b *block) int { return cmp.Compare(a.lo, b.lo) })
	gone := make([]bool, len(groups))
	for i := range groups {
		if gone[i] {
			continue
		}
		tried := 0
		for j := i + 1; j < len(groups) && groups[j].lo < groups[i].hi && tried < mostPartners &&
			p.w.Do(1); j++ {
			if gone[j] || groups[j].hi <= groups[i].hi {
				continue
			}
			tried++
			both := p.stair(groups[i], groups[j])
			if both.occupancy() > groups[i].occupancy()*groups[j].occupancy() &&
				both.height < groups[i].height+groups[j].height {
				groups[i], gone[j] = both, true
			}
		}
	}
	kept := groups[:0]
	for i, g := range groups {
		if !gone[i] {
			kept = append(kept, g)
		}
	}
	return kept
}

// stair stacks the boxes of the higher group so that it frees, or takes, a staircase, and lays
// those of the other into it, each as low as it fits.
func (p *planner) stair(first, second *block) *block {
	in := p.in
	high, other := first, second
	// What ends last lies lowest if the other comes later, what begins first if it comes before.
	order := func(a, b int32) int {
		return cmp.Or(cmp.Compare(in.Hi[b], in.Hi[a]),
			cmp.Compare(a, b))
	}
	earliest := func(a, b int32) int {
		return cmp.Or(cmp.Compare(in.Lo[a], in.Lo[b]),
			cmp.Compare(a, b))
	}
	if second.height > first.height {
		high, other = second, first
		order = func(a, b int32) int {
			return cmp.Or(cmp.Compare(in.Lo[a], in.Lo[b]),
				cmp.Compare(a, b))
		}
		earliest = func(a, b int32) int {
			return cmp.Or(cmp.Compare(in.Hi[b], in.Hi[a]),
				cmp.Compare(a, b))
		}
	}
	both, top := &block{}, int64(0)
	for _, box := range slices.SortedStableFunc(slices.Values(high.boxes), order) {
		p.add(both, box, top)
		top += in.Size[box]
	}
	for _, box := range slices.SortedStableFunc(slices.Values(other.boxes), earliest) {
		p.add(both, box, p.within(both, box))
	}
	return both
}

// within returns the lowest place for a box in a block.
func (p *planner) within(b *block, box int32) int64 {
	type span struct{ from, to int64 }
	var taken []span
	for k, other := range b.boxes {
		if p.in.Lo[other] < p.in.Hi[box] && p.in.Lo[box] < p.in.Hi[other] {
			taken = append(taken, span{b.inner[k], b.inner[k] + p.in.Size[other]})
		}
	}
	p.w.Do(int64(len(b.boxes)) / 16)
	slices.SortFunc(taken, func(x, y span) int { return cmp.Compare(x.from, y.from) })
	at := int64(0)
	for _, t := range taken {
		if t.from-at >= p.in.Size[box] {
			break
		}
		at = max(at, t.to)
	}
	return at
}

// layer is a band of addresses.
type layer struct {
	at   int64
	busy [][2]int32 // in the order of time
}

// idle returns where in its list a life would come, and whether it is idle for all of it.
func (l *layer) idle(b *block) (int, bool) {
	k, _ := slices.BinarySearchFunc(l.busy, b.lo,
		func(x [2]int32, lo int32) int { return cmp.Compare(x[0], lo) })
	return k, (k == 0 || l.busy[k-1][1] <= b.lo) && (k == len(l.busy) || b.hi <= l.busy[k][0])
}

// layers places groups: of each height, the largest first, those that fit into idle times of
// layers, and then the rest, by their starts, each in the new layer that ended last before it.
func (p *planner) layers(groups []*block) {
	slices.SortStableFunc(groups, func(a, b *block) int {
		return cmp.Or(cmp.Compare(b.height, a.height), cmp.Compare(a.lo, b.lo))
	})
	var all []*layer
	top := p.base
	for len(groups) > 0 {
		n := 1
		for n < len(groups) && groups[n].height == groups[0].height {
			n++
		}
		old := len(all)
		for _, g := range groups[:n] {
			if p.reuse(all[:old], g) {
				continue
			}
			var best *layer
			for _, l := range all[old:] {
				if end := l.busy[len(l.busy)-1][1]; end <= g.lo &&
					(best == nil || end > best.busy[len(best.busy)-1][1]) {
					best = l
				}
			}
			if best == nil {
				best = &layer{at: top}
				top += g.height
				all = append(all, best)
			}
			best.busy = append(best.busy, [2]int32{g.lo, g.hi})
			p.put(g, best.at)
		}
		p.w.Do(int64(n * len(all) / 16))
		groups = groups[n:]
	}
}

// reuse places a group in an idle time of a layer.
func (p *planner) reuse(layers []*layer, g *block) bool {
	for _, l := range layers {
		if k, idle := l.idle(g); idle {
			l.busy = slices.Insert(l.busy, k, [2]int32{g.lo, g.hi})
			p.put(g, l.at)
			return true
		}
	}
	return false
}

func (p *planner) put(g *block, at int64) {
	for k, box := range g.boxes {
		p.at[box], p.done[box] = at+g.inner[k], true
	}
}
