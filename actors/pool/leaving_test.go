package pool

import (
	"testing"
	"time"

	"stalloc/actors/host"
	"stalloc/actors/region"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
)

// TestNoMemoryWhileARegionLeaves: a request that finds no memory is not tried again behind each
// batch, for it would make what there is and give all back each time.
func TestNoMemoryWhileARegionLeaves(t *testing.T) {
	const unit, copies = 128 * mem.MiB, sim.FirstMade
	h := host.NewModel()
	k := newKitOn(t, h)
	number, err := region.Number("test: leaves")
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		k.malloc(0, number, unit)
	}
	others, err := k.gpu.Create(5 * mem.GiB)
	if err != nil {
		t.Fatal(err)
	}
	h.Lock()
	err = k.EndAwake(number, 0, Closing{Changed: true, All: true})
	h.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	copied := mem.Tick(0)
	k.Clock.Sleep = func(time.Duration) {
		k.gpu.Finish(0)
		copied = min(copied+1, k.gpu.Place(copies))
		k.gpu.FinishTo(copies, copied)
	}
	k.malloc(0, 0, 22*unit)
	if tries := k.Stats().Engine.Refused + 1; tries > 2 {
		t.Errorf("it is tried %d times", tries)
	}
	if err := k.gpu.Release(others); err != nil {
		t.Error(err)
	}
}

// TestPlannedRequestsWaitOnlySoLong: work that the copies out wait for may itself wait for a thread
// that waits for the copies. Then requests are served elsewhere, and only the first has waited.
func TestPlannedRequestsWaitOnlySoLong(t *testing.T) {
	const unit = 128 * mem.MiB
	h := host.NewModel()
	k := newKitOn(t, h)
	number, err := region.Number("test: never leaves")
	if err != nil {
		t.Fatal(err)
	}
	now, stuck := time.Duration(0), false
	k.Clock.Now = func() time.Duration { return now }
	k.Clock.Sleep = func(d time.Duration) {
		if now += d; now > time.Minute {
			t.Error("a request waits without an end")
			stuck, now = false, 0
		}
		if !stuck {
			for _, id := range []mem.StreamID{0, sim.FirstMade, sim.FirstMade + 1} {
				k.gpu.Finish(id)
			}
		}
	}
	locked := func(do func() error) {
		t.Helper()
		h.Lock()
		err := do()
		h.Unlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	leave := func() error { return k.EndAwake(number, 0, Closing{Changed: true, All: true}) }
	for range 8 {
		k.malloc(0, number, unit)
	}
	locked(leave)
	at := k.malloc(0, 0, 60*unit) // of 64
	k.release(at)
	locked(func() error { return k.BeginAwake(number, 0) }) // idle memory rests
	locked(leave)
	stuck = true
	for n := range 2 {
		before := now
		m := &Request{Size: unit, Planned: at + mem.Addr((59-mem.Bytes(n))*unit)}
		if k.Receive(m); m.Err != nil || m.Addr == m.Planned {
			t.Errorf("request %d: %v, and its place rests", n, m.Err)
		}
		if waited := now - before; waited > 11*time.Second || (waited > 0) != (n == 0) {
			t.Errorf("request %d has waited for %v", n, waited)
		}
	}
	stuck = false
}
