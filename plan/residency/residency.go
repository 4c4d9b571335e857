package residency

import (
	"slices"

	"stalloc/internal/mem"
)

// Solve plans a step. It fails only for a problem that Check refuses.
func Solve(p *Problem) (Plan, error) {
	if err := p.Check(); err != nil {
		return Plan{}, err
	}
	g := newGrid(p)
	s := newSchedule(g)
	if over := g.least() - p.Limit; over > 0 {
		return Plan{Over: over}, nil
	}
	excess := mem.Bytes(0)
	for _, t := range g.total {
		excess = max(excess, t-p.Limit)
	}
	chosen := make([]bool, len(g.parts))
	if excess > 0 {
		c := newChooser(g)
		if !c.without(chosen, excess) {
			c.with(chosen, s)
		}
	}
	s.run(chosen)
	return s.plan(), nil
}

// Least is the least limit that can be kept with what may leave, whatever the waits; no plan has
// less. It fails only for a problem that Check refuses.
func Least(p *Problem) (mem.Bytes, error) {
	if err := p.Check(); err != nil {
		return 0, err
	}
	return newGrid(p).least(), nil
}

// mostParts is how many parts may be planned in several orders.
const mostParts = 4096

// without finds a choice without waits. excess is what at least has to leave.
func (c *chooser) without(chosen []bool, excess mem.Bytes) (found bool) {
	least := mem.Bytes(0)
	for n, prefer := range orders {
		if n > 0 && len(c.parts) > mostParts {
			break
		}
		if !c.choose(prefer) {
			continue
		}
		c.steps = pruning
		c.prune(c.chosen, func() bool { return c.steps > 0 && c.keeps() })
		if b := c.bytes(c.chosen); !found || b < least {
			copy(chosen, c.chosen)
			found, least = true, b
		}
		if least == excess {
			break
		}
	}
	return found
}

// with finds a choice with little to wait. Of two that wait as long, the one is better of which
// less leaves.
func (c *chooser) with(chosen []bool, s *schedule) {
	steps, found, wait, least := pruning, false, Nanos(0), mem.Bytes(0)
	best := func(of []bool) bool {
		steps -= 4 * len(c.parts)
		if steps < 0 || !s.run(of) {
			return false
		}
		w, b := s.waited(), c.bytes(of)
		if found && (w > wait || w == wait && b >= least) {
			return false
		}
		found, wait, least = true, w, b
		copy(chosen, of)
		return true
	}
	all := make([]bool, len(c.parts))
	for i := range all {
		all[i] = true
	}
	best(all)
	c.wait(true)
	for n, prefer := range orders {
		if n == 0 || len(c.parts) <= mostParts {
			c.choose(prefer)
			best(c.chosen)
		}
	}
	now := slices.Clone(chosen)
	c.prune(now, func() bool { return best(now) })
}
