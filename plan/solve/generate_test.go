package solve

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"stalloc/internal/mem"
	"stalloc/plan/solve/problemfile"
)

var (
	writeFlag = flag.String("write", "",
		"where TestGenerated writes a made-up step to, for make bench-plan")
	blocksFlag = flag.Int("blocks", 30_000, "how many blocks it is to have, at least")
)

// TestGenerated: a made-up step is solved nearly as low as can be, in a budget that is no time.
func TestGenerated(t *testing.T) {
	p := generate(*blocksFlag, 1)
	if *writeFlag != "" {
		file := &problemfile.File{Problem: *p}
		for i := range p.Buffers {
			file.IDs = append(file.IDs, strconv.Itoa(i))
		}
		f, err := os.Create(*writeFlag)
		if err == nil {
			err = problemfile.Write(f, file, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	s, err := Solve(p, Options{Budget: 40_000_000})
	if err != nil || s.Gap() > 0.01 || Check(p, s.Offsets) != nil {
		t.Errorf("%v: gap %f of %d blocks", err, s.Gap(), len(p.Buffers))
	}
}

// generate returns at least n buffers of a made-up training step: a pipeline that runs its
// microbatches one forward and one backward in turn (1F1B), sequences of different lengths, every
// other layer recomputed, and 2 % of all sizes other than expected.
func generate(n int, seed uint64) *Problem {
	rng := rand.New(rand.NewPCG(seed, 3))
	const layers, warmup, eachLayer = 16, 4, 9
	micro := n/(layers*eachLayer) + 1
	p := &Problem{}
	now := mem.Tick(0)
	live := map[[3]int]int{} // by microbatch, layer and place: the buffer
	add := func(size mem.Bytes) int {
		if rng.IntN(50) == 0 {
			size = size*mem.Bytes(50+rng.IntN(100))/100 + 512
		}
		p.Buffers = append(p.Buffers, Buffer{Lower: now, Upper: -1, Size: (size + 511) / 512 * 512})
		now++
		return len(p.Buffers) - 1
	}
	free := func(i int) { p.Buffers[i].Upper = now; now++ }
	lengths := make([]mem.Bytes, micro)
	for i := range lengths {
		lengths[i] = mem.Bytes(64 * (8 + rng.IntN(57)))
	}
	forward := func(m, layer int, keep bool) {
		x := lengths[m] * 1024
		a := add(4 * x)
		b := add(lengths[m] * lengths[m] * 2)
		free(a)
		c := add(x)
		if keep {
			live[[3]int{m, layer, 1}] = c
			live[[3]int{m, layer, 2}] = add(3 * x)
			live[[3]int{m, layer, 3}] = add(lengths[m] * 4)
		} else {
			free(c)
		}
		free(b)
	}
	for turn := range micro + warmup {
		if turn < micro {
			for layer := range layers {
				live[[3]int{turn, layer, 0}] = add(lengths[turn] * 2048)
				forward(turn, layer, layer%2 == 0)
			}
		}
		if m := turn - warmup; m >= 0 {
			for layer := layers - 1; layer >= 0; layer-- {
				if layer%2 == 1 {
					forward(m, layer, true)
				}
				g := add(lengths[m] * 2048)
				h := add(lengths[m] * 8192)
				for k := 3; k >= 0; k-- {
					free(live[[3]int{m, layer, k}])
				}
				free(h)
				free(g)
			}
		}
	}
	for i := range p.Buffers {
		if p.Buffers[i].Upper < 0 {
			p.Buffers[i].Upper = now
		}
	}
	return p
}
