package residency

import (
	"fmt"

	"stalloc/internal/mem"
)

// validate holds a plan to the invariants, naively: it shares no code with the planner, and looks
// at every moment at every item.
func validate(p *Problem, plan *Plan) error {
	if plan.Over > 0 {
		if len(plan.Moves)+len(plan.Waits) > 0 {
			return fmt.Errorf("it does not fit, and something moves")
		}
		return nil
	}
	wait, left, last := Nanos(0), mem.Bytes(0), Nanos(-1<<62)
	for _, w := range plan.Waits {
		if w.For <= 0 || w.At <= last {
			return fmt.Errorf("wait %+v after one at %d", w, last)
		}
		wait, last = wait+w.For, w.At
	}
	for i, m := range plan.Moves {
		left += m.Size
		if err := validateMove(p, plan, i, m); err != nil {
			return err
		}
	}
	if wait != plan.Wait || left != plan.Left {
		return fmt.Errorf("waits of %d, %d bytes leave; told are %d and %d", wait, left, plan.Wait,
			plan.Left)
	}
	return validateLoad(p, plan)
}

func validateMove(p *Problem, plan *Plan, i int, m Move) error {
	it := p.Items[m.Item]
	whole := m.Offset == 0 && m.Size == it.Size
	switch {
	case !whole && !it.Parts || m.Size < p.Handle || m.Offset < 0 || m.Offset+m.Size > it.Size:
		return fmt.Errorf("move %+v of %+v: no such part", m, it)
	case float64(m.OutUntil-m.OutFrom) < float64(m.Size)*1e9/float64(p.Link.Out) ||
		float64(m.BackUntil-m.BackFrom) < float64(m.Size)*1e9/float64(p.Link.Back):
		return fmt.Errorf("move %+v is faster than the link", m)
	case m.OutFrom < wall(plan, it.Idle, true):
		return fmt.Errorf("move %+v of %+v leaves while it is used", m, it)
	case m.BackFrom < m.OutUntil || m.BackUntil > wall(plan, it.Need, true):
		return fmt.Errorf("move %+v of %+v: not out before it returns, or not back", m, it)
	}
	for _, o := range plan.Moves[:i] {
		if o.OutFrom < m.OutUntil && m.OutFrom < o.OutUntil ||
			o.BackFrom < m.BackUntil && m.BackFrom < o.BackUntil {
			return fmt.Errorf("moves %+v and %+v are on the link at once", o, m)
		}
		if o.Item == m.Item && o.Offset < m.Offset+m.Size && m.Offset < o.Offset+o.Size {
			return fmt.Errorf("%+v and %+v are the same bytes", o, m)
		}
	}
	return nil
}

// wall is when the program does what it does at a moment of its own time, or, if it waits before
// it, when it begins to wait.
func wall(plan *Plan, at Nanos, after bool) Nanos {
	t := at
	for _, w := range plan.Waits {
		if w.At < at || after && w.At == at {
			t += w.For
		}
	}
	return t
}

// validateLoad looks at the load wherever it may rise.
func validateLoad(p *Problem, plan *Plan) error {
	var times []Nanos
	for _, l := range p.Load {
		times = append(times, wall(plan, l.From, true))
	}
	for _, it := range p.Items {
		times = append(times, wall(plan, it.Idle, true), wall(plan, it.Need, true))
	}
	for _, m := range plan.Moves {
		times = append(times, m.BackFrom)
	}
	most := mem.Bytes(0)
	for _, t := range times {
		sum := mem.Bytes(0)
		for _, l := range p.Load {
			if wall(plan, l.From, true) <= t {
				sum = l.Bytes
			}
		}
		for i := range p.Items {
			sum += holds(p, plan, i, t)
		}
		most = max(most, sum)
	}
	if most > p.Limit || most != plan.Peak {
		return fmt.Errorf("the peak is %d, told is %d, the limit is %d", most, plan.Peak, p.Limit)
	}
	return nil
}

// holds is what an item has on the device at a time, while it is idle.
func holds(p *Problem, plan *Plan, i int, t Nanos) mem.Bytes {
	it := p.Items[i]
	if it.Need <= it.Idle || t < wall(plan, it.Idle, true) || t >= wall(plan, it.Need, true) {
		return 0
	}
	size := it.Size
	for _, m := range plan.Moves {
		if m.Item == i && m.OutUntil <= t && t < m.BackFrom {
			size -= m.Size
		}
	}
	return size
}
