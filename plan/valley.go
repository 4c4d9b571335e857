package plan

import "stalloc/internal/mem"

// Valley is the place shortly behind the beginning of a step where the least is live.
type Valley struct {
	Requests int       // made before it
	Drop     mem.Bytes // by which the load is lower there than at the beginning
}

// Valley looks for the valley among the first requests of a step: one in valleyPart. A
// training loop that clears its gradients only when the next iteration begins has
// one, and a plan made from boundary to boundary would hold every gradient as a block
// that crosses it.
func (s *Step) Valley() Valley {
	var v Valley
	load, least := mem.Bytes(0), mem.Bytes(0)
	most := s.Requests() / valleyPart
	requests := int64(0)
	for _, op := range s.Ops {
		if size := s.Blocks[op.Block].Size; op.Free {
			load -= size
		} else {
			load += size
			if requests++; requests > most {
				break
			}
		}
		if load < least {
			least = load
			v = Valley{Requests: int(requests), Drop: -load}
		}
	}
	return v
}

const valleyPart = 8
