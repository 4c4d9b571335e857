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
				synctest.Wait() // for the mover, which counts copies, too
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
					synctest.Wait()
				}
				if (dev.out > out) != x.leaves {
					t.Errorf("%v leave with %d requests", dev.out-out, n)
				}
			})
		})
	}
}

// TestLoweredLimit: memory that leaves above a limit that was lowered goes back to the driver, and
// is not kept for others.
func TestLoweredLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gpu := sim.New(sim.Config{Capacity: 2 * mem.GiB})
		k := newAwayKitOn(t, gpu, gpu, 128*mem.MiB) // 512 MiB
		live := k.ask(896 * mem.MiB)
		if err := k.Limit(0.5); err != nil {
			t.Fatal(err)
		}
		for range 2 { // in the second it is known how much is short
			k.use()
			k.end(true)
		}
		k.release(live)
		k.release(k.ask(896 * mem.MiB))
		time.Sleep(10 * time.Millisecond)
		if used := gpu.Used(); used > mem.GiB {
			t.Errorf("%v are held, of at most 1 GiB; %v are asleep", used, k.Stats().Asleep)
		}
		k.use()
	})
}

// TestLeavesNoMoreThanWasShort: idle memory takes the margin, while nothing waits, and no more
// leaves for that in the next steps.
func TestLeavesNoMoreThanWasShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gpu := sim.New(sim.Config{Capacity: 2 * mem.GiB})
		k := newAwayKitOn(t, gpu, gpu, 256*mem.MiB)
		if err := k.Limit(0.75); err != nil {
			t.Fatal(err)
		}
		var first mem.Bytes
		for n := range 8 {
			k.use()
			k.end(true)
			activations := k.ask(896 * mem.MiB) // short of 384 MiB
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			gone := k.Stats().Asleep
			k.release(activations)
			other, err := k.Malloc(1, mem.Bytes(16+4*n)*mem.MiB) // another stream
			if err != nil {
				t.Fatal(err)
			}
			k.release(other)
			if n == 1 {
				first = gone
			}
			if n > 0 && (gone != first || gone == 0) {
				t.Errorf("in step %d %v leave, and %v before", n, gone, first)
			}
		}
	})
}

// TestShortForAnyRegion: a model to compare with is used in each step, optimizer states in every
// fourth. What is short, under a limit that was lowered or while the states are in use, leaves with
// the states and stays away. Else a part of the model would leave and come back in each step.
func TestShortForAnyRegion(t *testing.T) {
	const unit, model, states = 256 * mem.MiB, 0, 1
	for _, lowered := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			dev := &counted{Device: sim.New(sim.Config{Capacity: 8 * unit})}
			k := newTurns(t, dev, 2, unit)
			use := func(n int, do func()) {
				if err := k.BeginAwake(k.regions[n], 0); err != nil {
					t.Fatal(err)
				}
				do()
				k.end(n, false)
			}
			step := func(n int) {
				use(model, func() {
					if lowered && n%4 == 0 {
						use(states, func() {})
					}
					k.release(k.ask(1))
				})
				live := k.ask(5)
				time.Sleep(10 * time.Millisecond)
				synctest.Wait()
				if !lowered && n%4 == 3 {
					use(states, func() { k.release(k.ask(2)) })
				}
				k.release(live)
				time.Sleep(10 * time.Millisecond)
				synctest.Wait()
			}
			for n := range 32 {
				if lowered && n == 10 {
					if err := k.Limit(0.8); err != nil {
						t.Fatal(err)
					}
				}
				step(n)
			}
			before := dev.back
			for n := range 8 {
				step(n)
			}
			if back := dev.back - before; back == 0 || back > 5*unit {
				t.Errorf("lowered %t: %v come back in 8 steps", lowered, back)
			}
		})
	}
}
