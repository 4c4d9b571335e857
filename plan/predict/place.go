package predict

import (
	"stalloc/internal/mem"
	"stalloc/plan"
)

// Obstacle is memory in use that a plan keeps away from: the bytes of a live block until
// its end, see Learner.End.
type Obstacle = plan.Fixed

// Nowhere is the offset of a position without a place: its size is not known, or it
// came before now.
const Nowhere mem.Offset = -1

// Plan returns an offset for each position of a forecast from now on, around the obstacles,
// and the end of the highest. It looks for one that ends at goal or below, and gives up after
// some milliseconds' work with the best it found. It needs nothing of the Learner, so it may
// run beside it.
func Plan(now mem.Tick, positions []Position, obstacles []Obstacle, goal mem.Bytes) ([]mem.Offset, mem.Bytes) {
	buffers := make([]plan.Buffer, len(positions)) // an empty one takes no memory
	for i, x := range positions {
		if x.Begin >= now {
			buffers[i] = plan.Buffer{Lower: x.Begin, Upper: x.End, Size: x.Size}
		}
	}
	s := plan.SolveAround(buffers, obstacles, goal)
	for i, x := range positions {
		if x.Size <= 0 || x.Begin < now {
			s.Offsets[i] = Nowhere
		}
	}
	return s.Offsets, s.Makespan
}
