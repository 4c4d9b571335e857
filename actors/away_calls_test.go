package actors

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"stalloc/actors/device/devicetest"
	"stalloc/actors/pool"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
)

// TestEachCallFailsOnce: whichever call of the driver fails while states leave and come back, no
// work touches what is not there, and once calls succeed the states can be used again.
func TestEachCallFailsOnce(t *testing.T) {
	const unit = 16 * mem.MiB
	for n, failed := 1, true; failed; n++ {
		gpu := sim.New(sim.Config{Capacity: 8 * unit, FenceDelay: 1})
		fault := devicetest.NewFault(gpu, 1)
		k := newAwayKitOn(t, gpu, fault, unit)
		for range 2 {
			fault.Set(devicetest.Rule{Kind: devicetest.AnyCall, Nth: n, Code: 2})
			k.half(n%2 == 0)
			fault.Set()
			k.use()
		}
		failed = fault.Injected() > 0
		if n > 5000 {
			t.Fatal("there is no end of calls")
		}
		n += n / 10 // the calls of many handles are alike
		if t.Failed() {
			t.Fatalf("call %d", n)
		}
	}
}

// half is a step in which anything may fail.
func (k *awayKit) half(changed bool) {
	if k.EndAwake(k.region, 0, pool.Closing{Changed: changed}) != nil {
		return
	}
	var live []mem.Addr
	for range 7 {
		at, err := k.Malloc(0, k.unit)
		if err != nil {
			break
		}
		if err := k.gpu.Use(0, at, k.unit); err != nil {
			k.t.Error(err)
		}
		live = append(live, at)
	}
	for _, at := range live {
		if err := k.Release(at); err != nil {
			k.t.Error(err)
		}
	}
	_ = k.Prefetch(k.region)
	if k.BeginAwake(k.region, 0) == nil { // else it stays open
		_ = k.EndAwake(k.region, 0, pool.Closing{Changed: true})
	}
}

// TestEndThatFailsIsAnEnd: the driver refuses the event behind the last use; the next use ends as
// any other.
func TestEndThatFailsIsAnEnd(t *testing.T) {
	gpu := sim.New(sim.Config{Capacity: mem.GiB})
	fault := devicetest.NewFault(gpu, 1)
	k := newAwayKitOn(t, gpu, fault, 128*mem.MiB)
	k.use()
	fault.Set(devicetest.Rule{Kind: devicetest.CallRecord, Code: 2})
	if err := k.EndAwake(k.region, 0, pool.Closing{Changed: true}); err == nil {
		t.Fatal("it ended without an event")
	}
	fault.Set()
	k.use()
	k.end(true)
	k.closed()
	k.use()
}

// TestComesBackFromABrokenPool: a bug of ours does not lose states that are away.
func TestComesBackFromABrokenPool(t *testing.T) {
	gpu := sim.New(sim.Config{Capacity: mem.GiB})
	dev := &dying{Device: gpu}
	k := newAwayKitOn(t, gpu, dev, 128*mem.MiB)
	k.end(true)
	k.release(k.ask(768 * mem.MiB))
	if k.Stats().Asleep == 0 {
		t.Fatal("nothing is away")
	}
	if err := k.Trim(0); err != nil {
		t.Fatal(err)
	}
	dev.armed = true
	if _, err := k.Malloc(0, 900*mem.MiB); !errors.Is(err, ErrBroken) {
		t.Fatalf("the pool is not broken: %v", err)
	}
	dev.armed = false
	k.use()
	k.end(true)
	if k.Stats().Asleep > 0 {
		t.Error("what is in use of a broken pool is away")
	}
	k.broken = true
}

// TestStepsSettle: in a program whose steps repeat the driver is asked for nothing but to map the
// region's own handles: no memory is made or given back.
func TestStepsSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // or the mover would look at any moment of a step
		k := newAwayKit(t)
		for step := range 12 {
			before := k.gpu.Stats()
			k.step(7)
			k.gpu.Finish(0)
			after := k.gpu.Stats()
			made, back := after.Create-before.Create, after.Release-before.Release
			mapped, moved := after.Map-before.Map, int64(k.Stats().Asleep/mem.HandleSize) // at most
			if step >= 8 && (made > 0 || back > 0 || mapped > moved) {
				t.Errorf("step %d: %d handles made, %d given back, %d mapped of %d", step, made, back,
					mapped, moved)
			}
		}
	})
}

// TestStepsSettleWithSmallHandles: nor where the highest handles, which lend first otherwise, are
// smaller than the region's.
func TestStepsSettleWithSmallHandles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gpu := sim.New(sim.Config{Capacity: 32 * mem.GiB})
		k := newAwayKitOn(t, gpu, gpu, 2*mem.MiB)
		live := []mem.Addr{k.ask(14 * mem.GiB)}
		for range 2 { // of handles as large as those
			if _, err := k.MallocIn(0, k.region, mem.GiB); err != nil {
				t.Fatal(err)
			}
		}
		for range 60 { // these are served by small ones, higher up
			live = append(live, k.ask(6*mem.MiB))
		}
		k.release(live...)
		if err := k.Limit(0.48); err != nil {
			t.Fatal(err)
		}
		for step := range 12 {
			before := k.gpu.Stats()
			k.use()
			k.end(true)
			activations := k.ask(14 * mem.GiB)
			time.Sleep(time.Second)
			synctest.Wait()
			if step >= 8 && k.Stats().Asleep < mem.GiB/2 {
				t.Fatalf("step %d: only %v have left", step, k.Stats().Asleep)
			}
			k.release(activations)
			time.Sleep(time.Second)
			synctest.Wait()
			after := k.gpu.Stats()
			made, back := after.Create-before.Create, after.Release-before.Release
			if step >= 8 && (made > 0 || back > 0) {
				t.Errorf("step %d: %d handles made, %d given back", step, made, back)
			}
		}
	})
}

// TestWhatRestsIsMadeAgain: memory that rests may go back to the driver, for a region's handles of
// another size. What the region gives up in the next step is made for it anew, where it was: a
// program that does the same again has as many handles as before.
func TestWhatRestsIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // or the mover would look at any moment of a step
		gpu := sim.New(sim.Config{Capacity: 8 * mem.GiB})
		k := newAwayKitOn(t, gpu, gpu, 512*mem.MiB)
		var early, s Stats
		for i := range 12 {
			k.step(14)
			if s = k.Stats(); i == 3 {
				early = s
			}
		}
		if s.Engine.Creates > early.Engine.Creates || s.Engine.Mapped > early.Engine.Mapped {
			t.Errorf("%d handles were made by step 4, %d by step 12; %d and %d are mapped",
				early.Engine.Creates, s.Engine.Creates, early.Engine.Mapped, s.Engine.Mapped)
		}
	})
}

// TestBackupOfOtherHandles: a region whose handles change keeps no more on the host than it has.
func TestBackupOfOtherHandles(t *testing.T) {
	gpu := sim.New(sim.Config{Capacity: 16 * mem.GiB})
	k := newAwayKitOn(t, gpu, gpu, 2*mem.MiB)
	for i := range 4 { // handles are larger where the load is
		load := k.ask(mem.GiB << i)
		at, err := k.MallocIn(0, k.region, 64*mem.MiB)
		if err != nil {
			t.Fatal(err)
		}
		k.release(load)
		how := pool.Closing{Changed: true, All: true}
		if err := errors.Join(k.EndAwake(k.region, 0, how), k.Prefetch(k.region)); err != nil {
			t.Fatal(err)
		}
		if s := k.Stats(); s.Backup > 128*mem.MiB {
			t.Errorf("the host has %v of 72 MiB", s.Backup)
		}
		k.use()
		k.release(at)
		if err := k.Trim(0); err != nil {
			t.Fatal(err)
		}
	}
}
