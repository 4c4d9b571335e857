package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"stalloc/cuda/sim"
	"stalloc/internal/mem"
)

// TestLeavesWithTheNextForward: what has to leave stays until the program asks for memory again, so
// that what it reads before waits for no copy. Small requests say nothing, but for their sum, which
// the mover sees.
func TestLeavesWithTheNextForward(t *testing.T) {
	for _, x := range []struct {
		name   string
		size   mem.Bytes // of each request
		most   int       // requests until something leaves
		frees  bool      // each before the next
		leaves bool
	}{
		{"the losses", 512, 32, true, false},
		{"small activations", 256 * mem.KiB, 8, false, true},
		{"a large one", mem.MiB, 1, true, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gpu := sim.New(sim.Config{Capacity: mem.GiB})
				dev := &counted{Device: gpu}
				k := newAwayKitOn(t, gpu, dev, 128*mem.MiB)
				small := k.ask(512) // which keeps memory for others
				defer k.release(small)
				for range 3 {
					k.step(7)
				}
				gradients := k.ask(128 * mem.MiB)
				k.use()
				out := dev.out
				k.end(true)
				k.release(gradients)
				time.Sleep(time.Second)
				if dev.out > out {
					t.Fatalf("%v leave before a request", dev.out-out)
				}
				n := 0
				for ; n < x.most && dev.out == out; n++ {
					at := k.ask(x.size)
					if x.frees {
						k.release(at)
					}
					time.Sleep(10 * time.Millisecond)
				}
				if (dev.out > out) != x.leaves {
					t.Errorf("%v leave with %d requests", dev.out-out, n)
				}
			})
		})
	}
}
