package plan

import (
	"testing"

	"stalloc/internal/mem"
)

// TestAlike tells steps whose sizes vary from steps that lack a part.
func TestAlike(t *testing.T) {
	step := func(layers, more int, size func(layer int) mem.Bytes) []*Step {
		var r Recorder
		id := uint64(0)
		for layer := range layers + more {
			r.Alloc(id, size(layer))
			r.Alloc(id+1, 4096)
			r.Free(id + 1)
			if layer >= layers {
				r.Free(id)
			}
			id += 2
		}
		for layer := range layers {
			r.Free(uint64(2 * layer))
		}
		return []*Step{r.Boundary()}
	}
	first := step(40, 0, func(layer int) mem.Bytes { return mem.Bytes(layer+1) * mem.MiB })[0]
	for range 10 { // of the optimizer
		first.Blocks = append(first.Blocks, Block{Size: mem.GiB, Alloc: int32(len(first.Ops)), Free: 1 << 20})
		first.Ops = append(first.Ops, Op{Block: int32(len(first.Blocks) - 1)})
	}
	for i := range first.Blocks {
		if b := &first.Blocks[i]; b.Free == 1<<20 {
			b.Free = int32(len(first.Ops))
		}
	}
	fixed := func(layer int) mem.Bytes { return mem.Bytes(layer+1) * mem.MiB }
	varying := func(layer int) mem.Bytes { return mem.Bytes(layer+2) * 3 * mem.MiB }
	for name, c := range map[string]struct {
		a, b  []*Step
		alike bool
	}{
		"the same":                         {step(40, 0, fixed), step(40, 0, fixed), true},
		"other sizes":                      {step(40, 0, fixed), step(40, 0, varying), true},
		"other sizes, a layer more":        {step(40, 0, fixed), step(40, 1, varying), true},
		"the same sizes, a layer more":     {step(40, 0, fixed), step(40, 1, fixed), true},
		"the same sizes, an evaluation":    {step(40, 0, fixed), step(40, 8, fixed), false},
		"the same sizes, and lasting ones": {step(40, 0, fixed), []*Step{first}, true},
		"other sizes, twice as many":       {step(40, 0, fixed), step(40, 40, varying), false},
		"a stream that the other has not":  {step(40, 0, fixed), append(step(40, 0, fixed), step(1, 0, fixed)...), false},
		"steps without any requests":       {[]*Step{{}}, []*Step{{}}, false},
		"one that has requests, one empty": {step(40, 0, fixed), []*Step{{}}, false},
	} {
		if Alike(c.a, c.b) != c.alike || Alike(c.b, c.a) != c.alike {
			t.Errorf("%s: alike is %v and %v, expected %v", name, Alike(c.a, c.b), Alike(c.b, c.a), c.alike)
		}
	}
}
