package actors

import (
	"errors"
	"testing"

	"stalloc/actors/region"
	"stalloc/cuda/sim"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// asleepBeside returns a kit with a region of 10 GiB that sleeps, and 23 GiB in use beside it.
func asleepBeside(t *testing.T, capacity mem.Bytes) (k *kit, number uint64, beside []mem.Addr) {
	t.Helper()
	gpu := sim.New(sim.Config{Capacity: capacity})
	l, err := OpenLocal(gpu, Options{})
	if err != nil {
		t.Fatal(err)
	}
	k = &kit{l, t, gpu}
	if number, err = region.Number("weights of " + t.Name()); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := k.MallocIn(0, number, mem.GiB); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Pause([]uint64{number}, false); err != nil {
		t.Fatal(err)
	}
	for range 23 {
		beside = append(beside, k.malloc(mem.GiB))
	}
	t.Cleanup(func() {
		if err := errors.Join(k.Check(), k.Close()); err != nil {
			t.Error(err)
		}
	})
	return k, number, beside
}

// TestResumeKnowsTheLimit: idle memory goes first, and what does not fit all the same sleeps on.
func TestResumeKnowsTheLimit(t *testing.T) {
	k, region, beside := asleepBeside(t, 80*mem.GiB)
	const limit = 24 * mem.GiB
	if err := k.Limit(24. / 80); err != nil {
		t.Fatal(err)
	}
	within := func(when string) {
		t.Helper()
		if s := k.Stats(); s.Reserved > limit || k.gpu.Used() > limit {
			t.Errorf("%s: %v are held of %v, %v on the device", when, s.Reserved, limit,
				k.gpu.Used())
		}
	}
	if err := k.Resume([]uint64{region}); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("33 GiB of 24: %v", err)
	}
	if s := k.Stats(); s.Asleep != 10*mem.GiB || s.Load != 33*mem.GiB {
		t.Errorf("what could not be woken: %v sleeps, the load is %v", s.Asleep, s.Load)
	}
	within("refused")
	k.release(beside...)
	if err := k.Resume([]uint64{region}); err != nil {
		t.Errorf("10 GiB beside 23 that are idle, of 24: %v", err)
	}
	within("awake")
}

// TestResumeOnFullDevice: idle memory of ours is no reason to sleep on.
func TestResumeOnFullDevice(t *testing.T) {
	k, region, beside := asleepBeside(t, 25*mem.GiB)
	if err := k.Resume([]uint64{region}); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("33 GiB of 25: %v", err)
	}
	k.release(beside...)
	if err := k.Resume([]uint64{region}); err != nil {
		t.Errorf("10 GiB beside 23 that are idle, of 25: %v", err)
	}
}

// TestClosedRegionsResumeAboveTheLimit: that needs no memory.
func TestClosedRegionsResumeAboveTheLimit(t *testing.T) {
	k := newAwayKit(t)
	live := k.ask(256 * mem.MiB)
	k.end(true)
	pools := []uint64{k.region}
	if err := errors.Join(k.Limit(0.125), k.Pause(pools, true), k.Resume(pools)); err != nil {
		t.Error(err)
	}
	k.release(live)
	if err := k.Limit(1); err != nil {
		t.Fatal(err)
	}
	k.use()
}
