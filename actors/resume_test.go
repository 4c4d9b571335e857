package actors

import (
	"errors"
	"sync"
	"testing"

	"stalloc/actors/device"
	"stalloc/actors/pool"
	"stalloc/actors/region"
	"stalloc/cuda/sim"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/live/hostmem"
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

// stuck is a device with contents that does not unpin some memory.
type stuck struct {
	device.Device
	mu     sync.Mutex
	pins   int // ever
	refuse bool
	pinned map[*byte]bool
}

func (d *stuck) Read([]byte, mem.Addr) error  { return nil }
func (d *stuck) Write(mem.Addr, []byte) error { return nil }

func (d *stuck) Pin(memory []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pinned[&memory[0]] = true
	d.pins++
	return nil
}

func (d *stuck) Unpin(memory []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse {
		d.refuse = false
		return driver.ErrOutOfMemory
	}
	delete(d.pinned, &memory[0])
	return nil
}

// keeps skips a test where the host is so full that no pinned memory is kept.
func keeps(t *testing.T) {
	t.Helper()
	if !hostmem.Ample() {
		t.Skip("less than half of the host's memory is free")
	}
}

// TestUnpinFails: pinned memory is kept for the next time. When the device is closed all are
// unpinned; what failed is told and tried again.
func TestUnpinFails(t *testing.T) {
	keeps(t)
	gpu := &stuck{Device: sim.New(sim.Config{Capacity: mem.GiB}), pinned: map[*byte]bool{}}
	l, err := OpenLocal(gpu, Options{})
	if err != nil {
		t.Fatal(err)
	}
	at, err := l.Malloc(0, 320*mem.MiB)
	if err != nil {
		t.Fatal(err)
	}
	sleeps := func() {
		t.Helper()
		if err := errors.Join(l.Pause(nil, true), l.Resume(nil)); err != nil {
			t.Fatal(err)
		}
		_ = l.onPool(func(p *pool.Pool) error { p.AwaitUnpinned(); return nil }, nil)
	}
	for range 2 {
		sleeps()
		if s := l.Stats(); gpu.pins != 10 || len(gpu.pinned) != 10 || s.Backup != 320*mem.MiB {
			t.Errorf("%d pieces stay pinned of %d, and %v are told", len(gpu.pinned), gpu.pins,
				s.Backup)
		}
	}
	gpu.refuse = true
	if err := l.Retire(); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Error(err)
	}
	if s := l.Stats(); len(gpu.pinned) != 0 || s.Backup != 0 {
		t.Errorf("tried again: %d pieces stay pinned, and %v are told", len(gpu.pinned), s.Backup)
	}
	if err := errors.Join(l.Release(at), l.Close()); err != nil {
		t.Error(err)
	}
}

// TestTrimAsleep: what sleeps has its copy, and no use for spare memory of the host beside it.
func TestTrimAsleep(t *testing.T) {
	keeps(t)
	gpu := &stuck{Device: sim.New(sim.Config{Capacity: mem.GiB}), pinned: map[*byte]bool{}}
	l, err := OpenLocal(gpu, Options{})
	if err != nil {
		t.Fatal(err)
	}
	half, err := l.Malloc(0, 320*mem.MiB)
	_, failed := l.Malloc(0, 320*mem.MiB)
	err = errors.Join(err, failed, l.Pause(nil, true), l.Resume(nil), l.Release(half),
		l.Pause(nil, true), l.Trim(0))
	if s := l.Stats(); err != nil || s.Backup != 320*mem.MiB || len(gpu.pinned) != 10 {
		t.Errorf("320 MiB sleep: %v is kept in %d pieces, %v", s.Backup, len(gpu.pinned), err)
	}
	if err := l.Close(); err != nil || len(gpu.pinned) != 0 {
		t.Errorf("%d pieces stay pinned: %v", len(gpu.pinned), err)
	}
}

// TestTrimOnceAwake: an emptied cache finds what was kept a moment ago.
func TestTrimOnceAwake(t *testing.T) {
	gpu := &stuck{Device: sim.New(sim.Config{Capacity: mem.GiB}), pinned: map[*byte]bool{}}
	l, err := OpenLocal(gpu, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		at, err := l.Malloc(0, 64*mem.MiB)
		if err := errors.Join(err, l.Pause(nil, true), l.Release(at), l.Resume(nil),
			l.Trim(0)); err != nil {
			t.Fatal(err)
		}
		_ = l.onPool(func(p *pool.Pool) error { p.AwaitUnpinned(); return nil }, nil)
		if s := l.Stats(); s.Backup != 0 {
			t.Fatalf("nothing lives, and %v is kept", s.Backup)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestBrokenKeepsNothing: a broken pool cannot pause again.
func TestBrokenKeepsNothing(t *testing.T) {
	gpu := &stuck{Device: sim.New(sim.Config{Capacity: mem.GiB}), pinned: map[*byte]bool{}}
	l, err := OpenLocal(gpu, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Malloc(0, 64*mem.MiB)
	if err := errors.Join(err, l.Pause(nil, true), l.Resume(nil)); err != nil {
		t.Fatal(err)
	}
	_ = l.onPool(func(*pool.Pool) error { panic("a bug") }, nil)
	if s := l.Stats(); s.Backup != 0 || len(gpu.pinned) != 0 {
		t.Errorf("%v stays in %d pieces", s.Backup, len(gpu.pinned))
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnpinOfARegionFails: what stays pinned of a region without memory is told and tried again.
func TestUnpinOfARegionFails(t *testing.T) {
	pins := &stuck{pinned: map[*byte]bool{}}
	gpu := struct {
		*sim.Device
		*stuck
	}{sim.New(sim.Config{Capacity: mem.GiB}), pins}
	l, err := OpenLocal(gpu, Options{})
	if err != nil {
		t.Fatal(err)
	}
	number, err := region.Number("test: stays pinned")
	at, failed := l.MallocIn(0, number, 64*mem.MiB)
	how := pool.Closing{Changed: true, All: true}
	if err := errors.Join(err, failed, l.EndAwake(number, 0, how), l.Release(at)); err != nil {
		t.Fatal(err)
	}
	for _, refuse := range []bool{true, false} {
		pins.refuse = refuse
		err := l.Trim(0)
		if kept := l.Stats().Backup > 0; err != nil || kept != refuse ||
			(len(pins.pinned) > 0) != refuse {
			t.Errorf("refused %v: %d pieces stay pinned, told %v: %v", refuse, len(pins.pinned),
				kept, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
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
