package actors

import (
	"errors"
	"slices"
	"testing"

	"stalloc/actors/pool"
	"stalloc/cuda/sim"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// TestLateFreesStay: where a freed block of a region is still used by another stream, its memory
// does not leave with the rest, neither when the region is closed nor when a request is short.
func TestLateFreesStay(t *testing.T) {
	const unit, copies = 16 * mem.MiB, sim.FirstMade // of copies out
	for _, all := range []bool{true, false} {
		gpu := sim.New(sim.Config{Capacity: 8 * unit, Manual: true})
		k := newAwayKitOn(t, gpu, gpu, unit)
		late := k.states[1]
		err := errors.Join(k.Record(late, 1), gpu.Use(1, late, unit))
		k.release(late)
		k.states = append(k.states[:1], k.states[2:]...)
		err = errors.Join(err, k.EndAwake(k.region, 0, pool.Closing{Changed: true, All: all}))
		if err != nil {
			t.Fatal(err)
		}
		over := make(chan bool, 1)
		go func() {
			for len(over) == 0 {
				gpu.Finish(copies)
			}
		}()
		for range 7 {
			_, _ = k.Malloc(0, unit)
		}
		over <- true
		if away := k.Stats().Asleep; away != 3*unit {
			t.Errorf("%v are away, not %v", away, 3*unit)
		}
		gpu.Finish(1)
		if err := errors.Join(gpu.Violations()...); err != nil {
			t.Error(err)
		}
	}
}

// awaiting is a device that notes which streams wait for events.
type awaiting struct {
	*sim.Device
	streams []mem.StreamID
}

func (d *awaiting) Await(on mem.StreamID, f driver.Fence) error {
	d.streams = append(d.streams, on)
	return d.Device.Await(on, f)
}

// TestNewBlocksWaitForTheLastUse: a block is freed while its region is closed, and the stream that
// closed it is still at work there. Whoever gets its bytes comes behind that.
func TestNewBlocksWaitForTheLastUse(t *testing.T) {
	const unit, closer, opener = 16 * mem.MiB, 5, 6
	gpu := sim.New(sim.Config{Capacity: 8 * unit, Manual: true})
	dev := &awaiting{Device: gpu}
	k := newAwayKitOn(t, gpu, dev, unit)
	freed := k.states[1]
	err := errors.Join(gpu.Use(closer, freed, unit), k.EndAwake(k.region, closer, pool.Closing{}))
	k.release(freed)
	k.states = append(k.states[:1], k.states[2:]...)
	err = errors.Join(err, k.BeginAwake(k.region, opener))
	dev.streams = nil
	for _, waits := range []bool{true, false} {
		at, failed := k.MallocIn(0, k.region, unit)
		if err = errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		if waits != slices.Contains(dev.streams, 0) || waits && at != freed {
			t.Errorf("it lies at %#x, %v wait; %#x is still in use: %t", at, dev.streams, freed,
				waits)
		}
		k.release(at)
		gpu.Finish(closer)
		dev.streams = nil
	}
}

// TestRequestsBesideWhatLeaves: while a region leaves, a request looks for what has been copied,
// but does not go through all handles of the region each time.
func TestRequestsBesideWhatLeaves(t *testing.T) {
	gpu := sim.New(sim.Config{Capacity: mem.GiB, Manual: true})
	k := newAwayKitOn(t, gpu, gpu, 128*mem.MiB) // of 256 handles
	ask := func() { k.release(k.ask(mem.MiB)) }
	before := testing.AllocsPerRun(200, ask)
	err := k.EndAwake(k.region, 0, pool.Closing{Changed: true, All: true})
	if err != nil {
		t.Fatal(err)
	}
	if now := testing.AllocsPerRun(200, ask); now > before+5 {
		t.Errorf("a request allocates %v times, %v where nothing leaves", now, before)
	}
	gpu.Finish(sim.FirstMade)
	if ask(); k.Stats().Asleep != 512*mem.MiB {
		t.Errorf("%v are away, not 512 MiB", k.Stats().Asleep)
	}
}

// TestOthersMemoryIsBack: the driver has refused memory while another process had it. Once that has
// gone, nothing leaves any more.
func TestOthersMemoryIsBack(t *testing.T) {
	gpu := sim.New(sim.Config{Capacity: 8 * mem.GiB})
	k := newAwayKitOn(t, gpu, gpu, 128*mem.MiB)
	others, err := gpu.Create(7 * mem.GiB)
	if err != nil {
		t.Fatal(err)
	}
	k.step(6)
	if k.Stats().Backup == 0 {
		t.Error("nothing was short")
	}
	if err := gpu.Release(others); err != nil {
		t.Fatal(err)
	}
	for range 20 { // in 16 it is remembered
		k.step(6)
	}
	if s := k.Stats(); s.Asleep > 0 {
		t.Errorf("%v are away, and %v of %v are used", s.Asleep, gpu.Used(), 8*mem.GiB)
	}
	k.use()
}

// TestUsesOutliveMemory: all blocks of a region are freed within a use, and their memory goes back
// to the driver. A use inside does not end the outer one.
func TestUsesOutliveMemory(t *testing.T) {
	k := newAwayKit(t)
	k.end(true)
	k.use()
	k.release(k.states...)
	k.states = nil
	if err := k.Trim(0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		at, err := k.MallocIn(0, k.region, mem.MiB)
		if err != nil {
			t.Fatal(err)
		}
		k.states = append(k.states, at)
		if err := k.BeginAwake(k.region, 0); err != nil {
			t.Fatal(err)
		}
		k.end(true)
	}
	k.end(true)
	k.closed()
}
