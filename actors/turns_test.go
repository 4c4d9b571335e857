package actors

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"stalloc/actors/pool"
	"stalloc/actors/region"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
)

// counted is a device that counts what is copied.
type counted struct {
	*sim.Device
	out, back mem.Bytes
}

func (d *counted) CopyOut(to []byte, from mem.Addr, on mem.StreamID) error {
	d.out += mem.Bytes(len(to))
	return d.Device.CopyOut(to, from, on)
}

func (d *counted) CopyBack(to mem.Addr, from []byte, on mem.StreamID) error {
	d.back += mem.Bytes(len(from))
	return d.Device.CopyBack(to, from, on)
}

// turns is a device that regions are used on one after the other.
type turns struct {
	*Local
	t       *testing.T
	gpu     *sim.Device
	regions []uint64
	states  []mem.Addr
	unit    mem.Bytes
	told    bool // the allocator is told which regions follow
}

func newTurns(t *testing.T, dev *counted, regions int, unit mem.Bytes) *turns {
	t.Helper()
	l, err := OpenLocal(dev, Options{Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	k := &turns{Local: l, t: t, gpu: dev.Device, unit: unit}
	for n := range regions {
		region, err := region.Number(fmt.Sprintf("states %d", n))
		if err != nil {
			t.Fatal(err)
		}
		k.regions = append(k.regions, region)
		at, err := l.MallocIn(0, region, unit)
		if err != nil {
			t.Fatal(err)
		}
		k.states = append(k.states, at)
		k.end(n, false)
	}
	t.Cleanup(func() {
		dev.Finish(0)
		if err := k.Check(); err != nil {
			t.Error(err)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

func (k *turns) end(n int, more bool) {
	k.t.Helper()
	how := pool.Closing{Changed: true, More: more}
	if err := k.EndAwake(k.regions[n], 0, how); err != nil {
		k.t.Fatal(err)
	}
}

// ask returns blocks of a unit, which work uses.
func (k *turns) ask(blocks int) (live []mem.Addr) {
	k.t.Helper()
	for range blocks {
		at, err := k.Malloc(0, k.unit)
		if err == nil {
			err = k.gpu.Use(0, at, k.unit)
		}
		if err != nil {
			k.t.Fatal(err)
		}
		live = append(live, at)
	}
	return live
}

func (k *turns) release(live []mem.Addr) {
	k.t.Helper()
	for _, at := range live {
		if err := k.Release(at); err != nil {
			k.t.Fatal(err)
		}
	}
}

// step asks for so many blocks, each for a time, and then uses one region after the other.
func (k *turns) step(blocks int, pause time.Duration) {
	k.t.Helper()
	live := k.ask(blocks)
	time.Sleep(pause)
	k.release(live)
	time.Sleep(pause)
	for n, region := range k.regions {
		if err := k.BeginAwake(region, 0); err != nil {
			k.t.Fatal(err)
		}
		if err := k.gpu.Use(0, k.states[n], k.unit); err != nil {
			k.t.Fatal(err)
		}
		k.end(n, k.told && n < len(k.regions)-1)
	}
}

// TestRegionsInTurns: regions that do not fit together are used one after the other; in each step
// no more than what is short, a margin and one region go to the host. As much comes back, and with
// looks at the load now and then one region twice.
func TestRegionsInTurns(t *testing.T) {
	const unit = 64 * mem.MiB
	for _, x := range []struct {
		regions, held, blocks int
		short                 mem.Bytes // by how much the largest load exceeds the device
		told                  bool
	}{
		{10, 4, 3, 5 * unit, false}, // they do not fit, in no part of the step
		{10, 4, 3, 5 * unit, true},
		{6, 4, 4, 2 * unit, false}, // they fit when they are used
		{6, 4, 4, 2 * unit, true},
		{3, 4, 4, 0, true}, // all fits
	} {
		for _, pause := range []time.Duration{0, 10 * time.Millisecond} { // 0: no look at the load
			synctest.Test(t, func(t *testing.T) { // or the mover would look at any moment of a step
				dev := &counted{Device: sim.New(sim.Config{Capacity: 12 * unit})}
				k := newTurns(t, dev, x.regions, unit)
				k.told = x.told
				weights := k.ask(x.held)
				for range 6 {
					k.step(x.blocks, pause)
				}
				for range 3 {
					dev.out, dev.back = 0, 0
					k.step(x.blocks, pause)
					most := x.short + x.short/8 + unit
					if x.short == 0 {
						most = 0
					}
					most = mem.RoundUp(most, unit)
					again := mem.Bytes(0) // a guess of the mover's may be wrong
					if pause > 0 {
						again = unit
					}
					if dev.out > most || dev.back > most+again {
						t.Errorf("%d regions, %v, %v: %v leave and %v come back, %v are short",
							x.regions, x.told, pause, dev.out, dev.back, x.short)
					}
				}
				if peak := dev.Peak(); peak > 12*unit {
					t.Errorf("the device held %v", peak)
				}
				k.release(weights)
			})
		}
	}
}

// TestRegionsComeBackAhead: when there is room for some of the regions, so many come back before
// they are used.
func TestRegionsComeBackAhead(t *testing.T) {
	const unit = 64 * mem.MiB
	synctest.Test(t, func(t *testing.T) { // where the mover looks at the load when it means to
		dev := &counted{Device: sim.New(sim.Config{Capacity: 12 * unit})}
		k := newTurns(t, dev, 10, unit)
		weights := k.ask(4)
		for range 5 {
			k.step(3, 30*time.Millisecond)
		}
		live := k.ask(3)
		time.Sleep(30 * time.Millisecond)
		k.release(live)
		time.Sleep(time.Second)
		if s := k.Stats(); s.Asleep >= 3*unit {
			t.Fatalf("%v are still away, where 8 of 10 regions fit", s.Asleep)
		}
		k.release(weights)
	})
}

// TestNothingLeavesBetweenRegions: where all regions are there when they are used, none leaves
// before the last is closed, though some of them are short later.
func TestNothingLeavesBetweenRegions(t *testing.T) {
	const unit = 64 * mem.MiB
	dev := &counted{Device: sim.New(sim.Config{Capacity: 12 * unit})}
	k := newTurns(t, dev, 6, unit)
	k.told = true
	weights := k.ask(4)
	for range 4 {
		k.step(4, 0)
	}
	k.release(k.ask(4))
	for rounds := 0; k.Stats().Asleep > 0; rounds++ {
		dev.Finish(0) // then idle memory can rest
		for _, region := range k.regions {
			if err := k.Prefetch(region); err != nil || rounds > 100 {
				t.Fatalf("%v are away, and all fits: %v", k.Stats().Asleep, err)
			}
		}
	}
	for n, region := range k.regions {
		if err := k.BeginAwake(region, 0); err != nil {
			t.Fatal(err)
		}
		out := dev.out
		if k.end(n, n < 5); dev.out > out {
			t.Errorf("%v leave behind region %d of 6", dev.out-out, n+1)
		}
	}
	out := dev.out
	if k.release(k.ask(1)); dev.out == out {
		t.Error("none leaves with the next request")
	}
	k.release(weights)
}
