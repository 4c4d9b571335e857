package actors

import (
	"testing"
	"time"

	"stalloc/actors/pool"
	"stalloc/actors/region"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
)

// decoder trains eight layers beside states of 1 GiB that lend their memory: 4.4 GiB are live at
// the peak of a step, and there are 4.
type decoder struct {
	*awayKit
	mib      mem.Bytes // less where it is scaled down
	requests uint64
	between  func() // two requests; nil: nothing
	optimize func() // uses the states
}

func newDecoder(t *testing.T, capacity mem.Bytes, delay int) *decoder {
	t.Helper()
	gpu := sim.New(sim.Config{Capacity: capacity, FenceDelay: delay})
	return newDecoderOn(t, gpu, mem.MiB, func() {})
}

// newDecoderOn is one on a device, with what happens while a thread waits.
func newDecoderOn(t *testing.T, gpu *sim.Device, mib mem.Bytes, waits func()) *decoder {
	t.Helper()
	over := make(chan struct{})
	clock := Clock{Sleep: func(d time.Duration) {
		if d > pool.PollInterval { // the mover's thread: the test prefetches
			<-over
		}
		waits()
	}}
	opts := Options{Inline: true, Clock: clock}
	k := &decoder{awayKit: newAwayKitWith(t, gpu, gpu, 256*mib, opts), mib: mib}
	t.Cleanup(func() { close(over) })
	k.optimize = func() {
		k.use()
		k.end(true)
	}
	k.PersistentStream(0)
	for range 8 {
		k.ask(128 * mib) // weights
	}
	k.optimize()
	return k
}

func (k *decoder) request(size mem.Bytes) mem.Addr {
	k.requests++
	if k.between != nil {
		k.between()
	}
	return k.ask(size)
}

// step trains on two batches, and marks its end where gradients are free: where they are live no
// plan finds room for the next ones.
func (k *decoder) step() {
	k.t.Helper()
	var gradients [8]mem.Addr
	for batch := range 2 {
		var saved [8]mem.Addr
		for n := range saved {
			saved[n] = k.request(96 * k.mib)
			k.release(k.request(80 * k.mib))
		}
		logits := k.request(300 * k.mib)
		for n := 7; n >= 0; n-- {
			again := k.request(200 * k.mib)
			if batch == 0 {
				gradients[n] = k.request(128 * k.mib)
			} else {
				k.release(k.request(128 * k.mib))
			}
			k.release(again, saved[n])
			if batch == 1 && n < 5 {
				if err := k.Prefetch(k.region); err != nil {
					k.t.Fatal(err)
				}
			}
		}
		k.release(logits)
	}
	k.optimize()
	k.release(gradients[:]...)
	if err := k.Step(); err != nil {
		k.t.Fatal(err)
	}
}

// TestLendingStepsArePlanned: once it was seen, a step is served from its plan under the limit,
// though handles rest and rise in it, and nothing is mapped.
func TestLendingStepsArePlanned(t *testing.T) {
	for _, delay := range []int{0, 3} {
		for _, spare := range []mem.Bytes{-100 * mem.MiB, 0} {
			k := newDecoder(t, 4*mem.GiB+spare, delay)
			for n := range 10 {
				before := k.Stats()
				k.requests = 0
				k.step()
				s := k.Stats()
				if s.Backup < 384*mem.MiB {
					t.Errorf("step %d: the host has %v", n, s.Backup)
				}
				if n < 5 {
					continue
				}
				if hits := s.Hits - before.Hits; hits != k.requests {
					t.Errorf("step %d: %d of %d requests are planned", n, hits, k.requests)
				}
				if maps := s.Engine.Maps - before.Engine.Maps; maps > 0 {
					t.Errorf("step %d: %d handles are mapped", n, maps)
				}
			}
		}
	}
}

// planned is step n; it fails unless all requests are served as planned from the sixth step on.
func (k *decoder) planned(n int) (before, after Stats) {
	k.t.Helper()
	before, k.requests = k.Stats(), 0
	k.step()
	after = k.Stats()
	if hits := after.Hits - before.Hits; n >= 5 && hits != k.requests {
		k.t.Errorf("step %d: %d of %d requests are planned", n, hits, k.requests)
	}
	return before, after
}

// TestPlansHoldWhileStatesLeaveSlowly: nothing is copied out but while the program waits for it. A
// request waits for its planned place: elsewhere it would be in the way of others, and handles
// would be mapped in every step.
func TestPlansHoldWhileStatesLeaveSlowly(t *testing.T) {
	const out, back = sim.FirstMade, sim.FirstMade + 1
	gpu := sim.New(sim.Config{Capacity: 4 * mem.GiB, Manual: true})
	copied := mem.Tick(0)
	k := newDecoderOn(t, gpu, mem.MiB, func() {
		gpu.Finish(0)
		copied = min(copied+1, gpu.Place(out))
		gpu.FinishTo(out, copied)
	})
	k.between = func() {
		gpu.Finish(0)
		gpu.Finish(back)
	}
	for n := range 10 {
		before, s := k.planned(n)
		if maps := s.Engine.Maps - before.Engine.Maps; n >= 5 && maps > 0 {
			t.Errorf("step %d: %d handles are mapped", n, maps)
		}
		if retries := s.Retries - before.Retries; n >= 5 && retries > 0 {
			t.Errorf("step %d: %d requests count as tried again", n, retries)
		}
	}
}

// TestPartsArePlanned: two parts of the states, which do not fit together, are used one after the
// other. Idle memory makes way for each, and is back at its places in the next step.
func TestPartsArePlanned(t *testing.T) {
	const mib = mem.MiB / 4
	k := newDecoderOn(t, sim.New(sim.Config{Capacity: 3500 * mib}), mib, func() {})
	number, err := region.Number("test: second part")
	if err != nil {
		t.Fatal(err)
	}
	parts, states := [2]uint64{k.region, number}, [2][]mem.Addr{k.states}
	k.region = number
	for range 4 {
		at, err := k.MallocIn(0, number, k.unit)
		if err != nil {
			t.Fatal(err)
		}
		states[1] = append(states[1], at)
	}
	k.end(true)
	k.optimize = func() {
		for n := range parts {
			k.region, k.states = parts[n], states[n]
			k.use()
			k.end(true)
		}
		k.region = 0 // none comes back ahead
	}
	for n := range 7 {
		k.planned(n)
	}
}

// TestStatesOfALargeModelMoveInFewHandles: a region that is made when much is live has handles as
// large as all others, so they are lent as they are: hardly any is made in a step.
func TestStatesOfALargeModelMoveInFewHandles(t *testing.T) {
	k := newDecoder(t, 20*mem.GiB-100*mem.MiB, 0)
	k.use() // these states stay
	for range 120 {
		k.ask(128 * mem.MiB)
	}
	number, err := region.Number("test: states of a large model")
	if err != nil {
		t.Fatal(err)
	}
	k.region, k.unit, k.states = number, 32*mem.MiB, nil
	for range 32 {
		at, err := k.MallocIn(0, number, k.unit)
		if err != nil {
			t.Fatal(err)
		}
		k.states = append(k.states, at)
	}
	k.use()
	k.end(true)
	for n := range 8 {
		before := k.gpu.Stats()
		k.step()
		if made := k.gpu.Stats().Create - before.Create; n > 1 && made > 50 {
			t.Errorf("step %d: %d handles are made", n, made)
		}
		if s := k.Stats(); s.Backup < 384*mem.MiB {
			t.Errorf("step %d: the host has %v", n, s.Backup)
		}
	}
}
