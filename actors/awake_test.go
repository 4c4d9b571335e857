package actors

import (
	"errors"
	"testing"

	"stalloc/actors/device"
	"stalloc/actors/device/devicetest"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// TestExportedBlockIsUsedWhileTheRestSleeps: what is exported stays awake, so work on it may go on,
// and its free waits for that, also where the rest cannot wake.
func TestExportedBlockIsUsedWhileTheRestSleeps(t *testing.T) {
	const size, other = 4 * mem.MiB, 7
	gpu := sim.New(sim.Config{Capacity: mem.GiB, Manual: true})
	fault := devicetest.NewFault(gpu, 1)
	dev := struct {
		*devicetest.Fault
		device.Exporter
	}{fault, gpu}
	l, err := OpenLocal(dev, Options{Without: without.Plans})
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{l, t, gpu}
	x := k.malloc(size)
	k.malloc(size)
	if _, _, err = k.Export(x); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(k.Pause(nil, false), gpu.Use(other, x, size),
		k.Record(x, other)); err != nil {
		t.Fatal(err)
	}
	k.release(x)
	if s := k.Stats(); s.Pending != size {
		t.Errorf("%v wait for the other stream", s.Pending)
	}
	held := gpu.Used()
	fault.Set(devicetest.Rule{Kind: devicetest.CallCreate, Nth: 1, Code: 999})
	if err := k.Resume(nil); err == nil || gpu.Used() != held {
		t.Errorf("%v are held of %v that another stream works on: %v", gpu.Used(), held, err)
	}
	fault.Set()
	if err := k.Resume(nil); err != nil {
		t.Fatal(err)
	}
	if y := k.malloc(size); y == x {
		t.Error("it was handed out while another stream was at work on it")
	}
	gpu.Finish(other)
	k.boundary()
	if s := k.Stats(); s.Pending != 0 {
		t.Errorf("%v wait for nothing", s.Pending)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// TestAllThatIsThereIsExported: then nothing sleeps, and nothing has to wake.
func TestAllThatIsThereIsExported(t *testing.T) {
	l, err := OpenLocal(sim.New(sim.Config{Capacity: mem.GiB}), Options{Without: without.Plans})
	if err != nil {
		t.Fatal(err)
	}
	x, err := l.Malloc(0, 512*mem.MiB)
	if err == nil {
		_, _, err = l.Export(x)
	}
	if err := errors.Join(err, l.Pause(nil, false), l.Resume(nil), l.Close()); err != nil {
		t.Error(err)
	}
}

// TestLimitWhileTheRestSleeps: what is awake never exceeds it, whatever becomes of what sleeps: it
// may go back, or serve a pool that is awake.
func TestLimitWhileTheRestSleeps(t *testing.T) {
	const most = mem.GiB / 16
	for _, trim := range []bool{false, true} {
		gpu := sim.New(sim.Config{Capacity: mem.GiB})
		l, err := OpenLocal(gpu, Options{Without: without.Plans})
		if err != nil {
			t.Fatal(err)
		}
		k := &kit{l, t, gpu}
		if err := k.Limit(1. / 16); err != nil {
			t.Fatal(err)
		}
		k.malloc(most / 2)
		k.release(k.malloc(most / 2))
		if err = k.Pause(nil, false); trim {
			err = errors.Join(err, k.Trim(0))
		}
		for used := mem.Bytes(0); err == nil; used = gpu.Used() {
			if _, err = k.MallocIn(0, 3, 4*mem.MiB); used > most || err != nil && used < most {
				t.Errorf("trim %t: %v are held, and the limit is %v", trim, used, most)
			}
		}
		if err := errors.Join(k.Check(), k.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestViewBehindSleep: a handle that slept under an idle view served another pool meanwhile, and is
// under the view again when it comes back.
func TestViewBehindSleep(t *testing.T) {
	const page, private = mem.HandleSize, 3
	k, fault := newFaultyKit(t, Options{Without: without.Plans})
	full := func(pool uint64, size mem.Bytes) mem.Addr {
		t.Helper()
		fault.Set(devicetest.Rule{Kind: devicetest.CallCreate, Nth: 1, Code: 2})
		defer fault.Set()
		at, err := k.MallocIn(0, pool, size)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	var row []mem.Addr
	for range 5 {
		row = append(row, k.malloc(page))
	}
	k.release(row[0], row[2])
	k.release(k.malloc(2 * page))
	if s := k.Stats().Engine; s.Views != 1 || s.FreeHandles != 2 {
		t.Fatalf("%d views, %d handles are free", s.Views, s.FreeHandles)
	}
	k.gpu.Finish(0)
	if err := k.Pause(nil, false); err != nil {
		t.Fatal(err)
	}
	x := full(private, 2*page)
	if err := k.Resume(nil); err != nil {
		t.Fatal(err)
	}
	k.release(x)
	if err := k.Trim(private); err != nil {
		t.Fatal(err)
	}
	k.release(full(0, page), full(0, page))
	if err := k.gpu.Use(0, k.malloc(2*page), 2*page); err != nil {
		t.Error(err)
	}
	k.gpu.Finish(0)
}
