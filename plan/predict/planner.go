package predict

import (
	"slices"

	"stalloc/internal/mem"
	"stalloc/plan"
)

// Obstacle is memory in use that a plan keeps away from: the bytes of a live block until
// its end, see Learner.End.
type Obstacle = plan.Fixed

// cached is how many plans a Planner keeps.
const cached = 4

// Planner finds offsets for the positions of a forecast. It needs nothing of the Learner, so it
// may run beside it. The zero value is ready.
type Planner struct {
	plans [cached]planned
	used  int64
	warm  plan.Weights
	// Solved counts plans that were made, Reused those that had been made before.
	Solved, Reused int
}

type planned struct {
	used      int64
	now       mem.Tick
	goal      mem.Bytes
	positions []Position
	obstacles []Obstacle
	offsets   []mem.Offset
	top       mem.Bytes
}

// Nowhere is the offset of a position without a place: its size is not known, or it
// came before now.
const Nowhere mem.Offset = -1

// Plan returns an offset for each position from now on, around the obstacles, and the
// end of the highest. It looks for one that ends at goal or below, and gives up after
// some milliseconds' work with the best it found. The same problem as one of the last is
// answered at once. The result is the Planner's: it holds until the next call.
func (p *Planner) Plan(now mem.Tick, positions []Position, obstacles []Obstacle, goal mem.Bytes) ([]mem.Offset, mem.Bytes) {
	p.used++
	oldest := &p.plans[0]
	for i := range p.plans {
		c := &p.plans[i]
		if c.used > 0 && c.now == now && c.goal == goal && slices.Equal(c.positions, positions) && slices.Equal(c.obstacles, obstacles) {
			c.used = p.used
			p.Reused++
			return c.offsets, c.top
		}
		if c.used < oldest.used {
			oldest = c
		}
	}
	c := oldest
	c.used, c.now, c.goal = p.used, now, goal
	c.positions = append(c.positions[:0], positions...)
	c.obstacles = append(c.obstacles[:0], obstacles...)
	p.solve(c)
	p.Solved++
	return c.offsets, c.top
}

func (p *Planner) solve(c *planned) {
	buffers := make([]plan.Buffer, 0, len(c.positions))
	for _, x := range c.positions {
		if x.Size > 0 && x.Begin >= c.now {
			buffers = append(buffers, plan.Buffer{Lower: x.Begin, Upper: x.End, Size: x.Size})
		}
	}
	var o plan.Options
	if p.warm != (plan.Weights{}) {
		o.Warm = &p.warm
	}
	s := plan.SolveAround(buffers, c.obstacles, c.goal, o)
	p.warm, c.top = s.Weights, s.Makespan
	c.offsets = c.offsets[:0]
	k := 0
	for _, x := range c.positions {
		at := Nowhere
		if x.Size > 0 && x.Begin >= c.now {
			at = s.Offsets[k]
			k++
		}
		c.offsets = append(c.offsets, at)
	}
}
