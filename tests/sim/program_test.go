package sim

import (
	"math/rand/v2"

	"stalloc/internal/mem"
)

// op is one line of a program: a request, or the free of an earlier one.
type op struct {
	free bool
	id   int
	size mem.Bytes
}

// program is what one stream does in a step.
type program []op

// newProgram draws a step: blocks that nest, as a forward and a backward pass make
// them, among blocks that end in any order.
func newProgram(r *rand.Rand, requests int, most mem.Bytes) (p program) {
	var nested, loose []int
	end := func(from *[]int, i int) {
		p = append(p, op{free: true, id: (*from)[i]})
		*from = append((*from)[:i], (*from)[i+1:]...)
	}
	for id := range requests {
		p = append(p, op{id: id, size: drawSize(r, most)})
		if id < requests/2 && r.IntN(3) > 0 {
			nested = append(nested, id)
		} else {
			loose = append(loose, id)
		}
		if len(loose) > 3 {
			end(&loose, r.IntN(len(loose)))
		}
		if id >= requests/2 && len(nested) > 0 {
			end(&nested, len(nested)-1)
		}
	}
	for len(loose) > 0 {
		end(&loose, 0)
	}
	for len(nested) > 0 {
		end(&nested, len(nested)-1)
	}
	return p
}

// drawSize draws from the classes of sizes that a training step has.
func drawSize(r *rand.Rand, most mem.Bytes) mem.Bytes {
	switch r.IntN(6) {
	case 0:
		return 1 + mem.Bytes(r.Int64N(int64(4*mem.KiB)))
	case 1, 2:
		return 1 + mem.Bytes(r.Int64N(int64(mem.MiB)))
	case 3:
		return mem.MiB * mem.Bytes(1+r.Int64N(4)) // often the same
	default:
		return 1 + mem.Bytes(r.Int64N(int64(most)))
	}
}
