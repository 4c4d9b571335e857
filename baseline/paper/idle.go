package paper

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
)

// period is a time of the problem.
type period struct{ from, to mem.Tick }

// idle returns, by module, what the plan leaves idle from its first request to the last end of its
// blocks, in the first step and in a later one.
func (d *drawing) idle(plan *Plan) (all [2]map[int32]idle) {
	lived := [2]map[int32][]period{{}, {}}
	for n := range d.p.requests {
		r := &d.p.requests[n]
		module := d.modules[n]
		if module == outside || r.step > 1 {
			continue
		}
		of := lived[r.step]
		if of[module] == nil {
			of[module] = []period{{mem.Tick(r.born), mem.Tick(r.born)}}
		}
		of[module][0].to = max(of[module][0].to, d.until(r.dead))
		if r.step == 1 && r.dead > d.p.ends[1] { // on into the step that follows
			begin, end := mem.Tick(d.p.ends[0]), mem.Tick(d.p.ends[1])
			if r.dead < never {
				end = d.again(r.dead)
			}
			of[module] = append(of[module], period{begin, end})
		}
	}
	busy := d.pieces()
	for step := range all {
		all[step] = make(map[int32]idle)
		for module, periods := range lived[step] {
			all[step][module] = between(busy, periods, plan.Region)
		}
	}
	return all
}

// piece is a part of a buffer's life, and where it lies.
type piece struct {
	period
	span
}

// pieces are all of them, in the order of offsets.
func (d *drawing) pieces() (all []piece) {
	gaps := make(map[int]period)
	for _, g := range d.problem.Gaps {
		gaps[g.Buffer] = period{g.Lower, g.Upper}
	}
	for i, b := range d.problem.Buffers {
		where := span{d.at[i], d.at[i] + mem.Offset(b.Size)}
		if gap, ok := gaps[i]; ok {
			all = append(all, piece{period{b.Lower, gap.from}, where})
			b.Lower = gap.to
		}
		all = append(all, piece{period{b.Lower, b.Upper}, where})
	}
	slices.SortFunc(all, func(a, b piece) int { return cmp.Compare(a.span.from, b.span.from) })
	return all
}

// between returns what no piece takes in any of the periods.
func between(busy []piece, periods []period, region mem.Bytes) (free idle) {
	low := mem.Offset(0)
	for _, b := range busy {
		if !slices.ContainsFunc(periods, func(p period) bool {
			return b.period.from < p.to && p.from < b.period.to
		}) {
			continue
		}
		if b.span.from > low {
			free = append(free, span{low, b.span.from})
		}
		low = max(low, b.span.to)
	}
	if low < mem.Offset(region) {
		free = append(free, span{low, mem.Offset(region)})
	}
	return free
}
