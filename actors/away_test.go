package actors

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"stalloc/actors/device"
	"stalloc/actors/pool"
	"stalloc/actors/region"
	"stalloc/cuda/sim"
	"stalloc/engine/onerange"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// awayKit is an allocator of eight units with a region of four blocks of one, which is in use.
type awayKit struct {
	*Local
	t      *testing.T
	gpu    *sim.Device
	region uint64
	states []mem.Addr
	unit   mem.Bytes // of a block
	broken bool      // the pool is, on purpose
}

func newAwayKit(t *testing.T) *awayKit {
	t.Helper()
	gpu := sim.New(sim.Config{Capacity: mem.GiB})
	return newAwayKitOn(t, gpu, gpu, 128*mem.MiB)
}

func newAwayKitOn(
	t *testing.T, gpu *sim.Device, dev device.Device, unit mem.Bytes,
) *awayKit {
	t.Helper()
	return newAwayKitWith(t, gpu, dev, unit, Options{Inline: true})
}

func newAwayKitWith(
	t *testing.T, gpu *sim.Device, dev device.Device, unit mem.Bytes, opts Options,
) *awayKit {
	t.Helper()
	l, err := OpenLocal(dev, opts)
	if err != nil {
		t.Fatal(err)
	}
	region, err := region.Number("test: states")
	if err != nil {
		t.Fatal(err)
	}
	k := &awayKit{Local: l, t: t, gpu: gpu, region: region, unit: unit}
	for range 4 {
		at, err := l.MallocIn(0, region, unit)
		if err != nil {
			t.Fatal(err)
		}
		k.states = append(k.states, at)
	}
	t.Cleanup(func() {
		gpu.Finish(0)
		if err := k.Check(); err != nil && !k.broken {
			t.Error(err)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// use has work on the default stream use all of the region.
func (k *awayKit) use() {
	k.t.Helper()
	if err := k.BeginAwake(k.region, 0); err != nil {
		k.t.Fatal(err)
	}
	for _, at := range k.states {
		if err := k.gpu.Use(0, at, k.unit); err != nil {
			k.t.Fatal(err)
		}
	}
}

// ask returns a block of the default pool, which work uses.
func (k *awayKit) ask(size mem.Bytes) mem.Addr {
	k.t.Helper()
	at, err := k.Malloc(0, size)
	if err != nil {
		k.t.Fatal(err)
	}
	if err := k.gpu.Use(0, at, size); err != nil {
		k.t.Fatal(err)
	}
	return at
}

func (k *awayKit) release(blocks ...mem.Addr) {
	k.t.Helper()
	for _, at := range blocks {
		if err := k.Release(at); err != nil {
			k.t.Fatal(err)
		}
	}
}

// step uses the states, and then needs so many blocks as large as theirs at once.
func (k *awayKit) step(blocks int) {
	k.t.Helper()
	k.use()
	k.end(true)
	var live []mem.Addr
	for range blocks {
		live = append(live, k.ask(k.unit))
	}
	k.release(live...)
}

// closed fails unless requests of the region are refused.
func (k *awayKit) closed() {
	k.t.Helper()
	if _, err := k.MallocIn(0, k.region, mem.MiB); !errors.Is(err, pool.ErrNotOpen) {
		k.t.Errorf("a request of a closed region: %v", err)
	}
}

func (k *awayKit) end(changed bool) {
	k.t.Helper()
	how := pool.Closing{Changed: changed}
	if err := k.EndAwake(k.region, 0, how); err != nil {
		k.t.Fatal(err)
	}
}

// TestStatesLend: a step that needs what idle states have is served from the second step on without
// a wait, and the device never holds more than it has.
func TestStatesLend(t *testing.T) {
	k := newAwayKit(t)
	for step := range 6 {
		k.use()
		k.end(true)
		var live []mem.Addr
		for range 7 {
			live = append(live, k.ask(128*mem.MiB))
		}
		if s := k.Stats(); s.Asleep < 384*mem.MiB || s.Backup < s.Asleep || s.Lent != s.Asleep {
			t.Errorf("step %d: %v are away, the host has %v", step, s.Asleep, s.Backup)
		}
		k.release(live...)
		if err := k.Check(); err != nil {
			t.Fatal(err)
		}
	}
	k.use()
	if s := k.Stats(); s.Asleep != 0 || k.gpu.Peak() > mem.GiB {
		t.Errorf("%v are away of what is in use; the device held %v", s.Asleep, k.gpu.Peak())
	}
}

// TestNothingLeavesWhereAllFits, and a region that is not in use serves nobody.
func TestNothingLeavesWhereAllFits(t *testing.T) {
	k := newAwayKit(t)
	for range 3 {
		k.end(true)
		k.release(k.ask(256 * mem.MiB))
		if s := k.Stats(); s.Asleep+s.Backup > 0 {
			t.Errorf("%v are away, the host has %v", s.Asleep, s.Backup)
		}
		k.closed()
		k.use()
	}
}

// TestWhatDoesNotFit: the region stays away, with an error, and is there once there is room.
func TestWhatDoesNotFit(t *testing.T) {
	k := newAwayKit(t)
	k.end(true)
	at := k.ask(768 * mem.MiB)
	if err := k.BeginAwake(k.region, 0); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("768 MiB of 1 GiB are in use, and 512 are opened: %v", err)
	}
	k.release(at)
	k.use()
}

// TestUsesNest: a region is closed by the end of its last use.
func TestUsesNest(t *testing.T) {
	k := newAwayKit(t)
	for range 2 {
		k.use()
		k.use()
		k.end(true)
		at, err := k.MallocIn(0, k.region, mem.MiB)
		if err != nil {
			t.Errorf("the region is in use: %v", err)
		}
		k.release(at)
		k.end(false)
		k.closed()
	}
	k.use()
}

// TestPausedWhileClosed: it sleeps, wakes to what it was, and can be used.
func TestPausedWhileClosed(t *testing.T) {
	k := newAwayKit(t)
	k.end(true)
	pools := []uint64{k.region}
	if err := k.Pause(pools, true); err != nil {
		t.Fatal(err)
	}
	if s := k.Stats(); s.Reserved > 0 || s.Lent > 0 {
		t.Errorf("%v of what sleeps are held, %v lent", s.Reserved, s.Lent)
	}
	if err := k.BeginAwake(k.region, 0); !errors.Is(err, ErrAsleep) {
		t.Errorf("a region that sleeps is opened: %v", err)
	}
	if err := k.Resume(pools); err != nil {
		t.Fatal(err)
	}
	if s := k.Stats(); s.Lent != s.Asleep || s.Lent == 0 {
		t.Errorf("%v are lent of %v that are away", s.Lent, s.Asleep)
	}
	k.use()
	if used := k.gpu.Used(); used < 512*mem.MiB {
		t.Errorf("%v are held", used)
	}
	if err := errors.Join(k.Pause(pools, false), k.Resume(pools)); err != nil {
		t.Fatal(err)
	}
	k.use()
}

// TestPausedWhileOpen: a use that ends while the region sleeps has ended, and the region lends its
// memory after the next one.
func TestPausedWhileOpen(t *testing.T) {
	k := newAwayKit(t)
	k.end(true)
	k.use()
	pools := []uint64{k.region}
	if err := k.Pause(pools, false); err != nil {
		t.Fatal(err)
	}
	if err := k.EndAwake(k.region, 0, pool.Closing{Changed: true}); !errors.Is(err, ErrAsleep) {
		t.Errorf("a region that sleeps is closed: %v", err)
	}
	if err := k.Resume(pools); err != nil {
		t.Fatal(err)
	}
	k.use()
	k.end(true)
	k.closed()
}

// TestComesBackAhead: once a step was seen, its states are back before they are opened. Handles may
// be set to be larger than what comes back at once.
func TestComesBackAhead(t *testing.T) {
	for _, part := range []int{onerange.DefaultConfig().HandlePart, 1} {
		synctest.Test(t, func(t *testing.T) { comesBackAhead(t, part) })
	}
}

// comesBackAhead runs where the mover looks at the load when it means to.
func comesBackAhead(t *testing.T, part int) {
	cfg := onerange.DefaultConfig()
	cfg.HandlePart, cfg.HandleMost = part, 128*mem.MiB
	gpu := sim.New(sim.Config{Capacity: mem.GiB})
	k := newAwayKitWith(t, gpu, gpu, 128*mem.MiB, Options{Inline: true, Range: cfg})
	step := func() {
		k.use()
		k.end(true)
		var live []mem.Addr
		for range 7 {
			live = append(live, k.ask(128*mem.MiB))
			time.Sleep(10 * time.Millisecond)
		}
		k.release(live...)
	}
	for range 3 { // in the first nothing left ahead, the second was seen
		step()
	}
	time.Sleep(time.Second)
	if s := k.Stats(); s.Asleep > 0 {
		t.Fatalf("%v are still away", s.Asleep)
	}
	step() // it makes way again
	k.use()
	if peak := k.gpu.Peak(); peak > mem.GiB {
		t.Errorf("the device held %v", peak)
	}
}

// TestRequestTakesItsShortfall: a large request, most of which idle memory serves, makes no more
// leave than it needs.
func TestRequestTakesItsShortfall(t *testing.T) {
	k := newAwayKit(t) // 512 MiB of 1 GiB
	k.release(k.ask(384 * mem.MiB))
	k.end(true)
	k.release(k.ask(640 * mem.MiB))
	if s := k.Stats(); s.Backup == 0 || s.Backup > 256*mem.MiB {
		t.Errorf("the host has %v", s.Backup)
	}
	k.use()
}

// TestShortPeaks: a region does not come back between two peaks of a step, however short they are.
func TestShortPeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newAwayKit(t) // 512 MiB of 1 GiB
		for n := range 5 {
			k.use()
			k.end(true)
			for peak := range 4 {
				if s := k.Stats(); n > 2 && peak > 0 && s.Asleep == 0 {
					t.Errorf("step %d: it is back before peak %d", n, peak)
				}
				k.release(k.ask(800 * mem.MiB))
				time.Sleep(50 * time.Millisecond)
			}
			if s := k.Stats(); n > 2 && s.Asleep > 0 {
				t.Errorf("step %d: %v are away at its end", n, s.Asleep)
			}
		}
	})
}
