package plan

import "stalloc/internal/mem"

// sighting is what several learned steps say about one block of the last of them.
type sighting struct {
	least, most mem.Bytes // sizes seen at this position
	seen        int       // steps that have the position, the last included
	steady      bool      // wherever it was seen, its free was at the same place
}

func (s sighting) fixed() bool { return s.least == s.most }

// classify aligns the earlier steps with the last and returns the sighting of each
// of its blocks.
//
// Two blocks of different steps correspond if their allocations do. Matching
// them with the online matcher instead would repeat in the plan the very errors
// that the plan is to survive.
func classify(steps []*Step) []sighting {
	last := steps[len(steps)-1]
	spans := make([]sighting, len(last.Blocks))
	for i, b := range last.Blocks {
		spans[i] = sighting{least: b.Size, most: b.Size, seen: 1, steady: true}
	}
	tokens := last.tokens()
	for _, s := range steps[:len(steps)-1] {
		to := align(tokens, s.tokens())
		for i, b := range last.Blocks {
			if b.Alloc < 0 || to[b.Alloc] == unaligned {
				continue
			}
			other := s.Blocks[s.Ops[to[b.Alloc]].Block]
			sp := &spans[i]
			sp.seen++
			sp.least, sp.most = min(sp.least, other.Size), max(sp.most, other.Size)
			if int(b.Free) < len(last.Ops) && to[b.Free] != other.Free ||
				int(b.Free) == len(last.Ops) && int(other.Free) != len(s.Ops) {
				sp.steady = false
			}
		}
	}
	return spans
}
