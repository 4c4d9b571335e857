package onerange

import (
	"math/rand/v2"
	"testing"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// TestManyViews: a program of which no block comes again, nor nests, has ever more views. Once they
// have all addresses, idle ones make way: it needs no more memory than before, and another stream
// is served.
func TestManyViews(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Window = 8 * mem.GiB
	d := newDevice(cfg)
	rng := rand.New(rand.NewPCG(5, 5))
	var live []uint64
	load, peak := mem.Bytes(0), mem.Bytes(0)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for req := range uint64(1500) {
		size := mem.MiB * 5 << rng.IntN(5) * mem.Bytes(8+rng.IntN(8)) / 8
		for load+size > mem.GiB {
			i := 0
			load -= d.blocks[live[i]].Size
			check(d.free(live[i]))
			live = append(live[:i], live[i+1:]...)
			for len(d.fences) > 0 {
				check(d.pass(0))
			}
		}
		check(d.step(engine.Event{Kind: engine.EvAlloc, Req: req, Asked: size}))
		live, load = append(live, req), load+size
		peak = max(peak, load)
	}
	held := d.eng.Reserved()
	if held > peak+peak/10 {
		t.Errorf("%v are held for a load of %v", held, peak)
	}
	for req := uint64(2000); d.eng.Reserved() == held; req++ { // nothing is left idle
		check(d.step(engine.Event{Kind: engine.EvAlloc, Req: req, Asked: 2 * mem.MiB}))
	}
	check(d.step(engine.Event{Kind: engine.EvAlloc, Req: 9000, Asked: 20 * mem.MiB, Stream: 7}))
	if _, granted := d.blocks[9000]; !granted {
		t.Errorf("a block of another stream is refused: %+v", d.refused)
	}
}
