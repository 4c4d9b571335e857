package sleeper_test

import (
	"errors"
	"testing"

	"stalloc/actors/device"
	"stalloc/actors/device/devicetest"
	"stalloc/actors/device/sleeper"
	"stalloc/cuda/sim"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

func TestConforms(t *testing.T) {
	devicetest.RunAlone(t, func() device.Device {
		return sleeper.New(sim.New(sim.Config{Capacity: 128 * mem.MiB}))
	})
}

const page = mem.HandleSize

// kit is a device with three handles: two side by side, one of them mapped a second time, and one
// apart, which stays awake.
type kit struct {
	*testing.T
	*sleeper.Device
	gpu     *sim.Device
	fault   *devicetest.Fault
	base    mem.Addr
	handles []driver.Handle
}

func newKit(t *testing.T) *kit {
	t.Helper()
	gpu := sim.New(sim.Config{Capacity: 128 * mem.MiB})
	k := &kit{T: t, gpu: gpu, fault: devicetest.NewFault(gpu, 1)}
	k.Device = sleeper.New(k.fault)
	var err error
	if k.base, err = k.Reserve(32 * page); err != nil {
		t.Fatal(err)
	}
	for i, size := range []mem.Bytes{page, 2 * page, page} {
		h, err := k.Create(size)
		if err != nil {
			t.Fatal(err)
		}
		k.handles = append(k.handles, h)
		k.put(k.at([]int{0, 1, 20}[i]), h, size)
	}
	k.put(k.at(8), k.handles[0], page)
	return k
}

// lone returns a device with one page, mapped at base, that is given back when the test ends.
func lone(t *testing.T) (d *sleeper.Device, base mem.Addr, h driver.Handle) {
	t.Helper()
	d = sleeper.New(sim.New(sim.Config{Capacity: 128 * mem.MiB}))
	base, err := d.Reserve(page)
	if err != nil {
		t.Fatal(err)
	}
	h, err = d.Create(page)
	if err = errors.Join(err, d.Map(base, h), d.Access(base, page)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.Unmap(base, page), d.Release(h), d.Unreserve(base, page),
			d.Close()); err != nil {
			t.Error(err)
		}
	})
	return d, base, h
}

func (k *kit) at(pages int) mem.Addr { return k.base + mem.Addr(pages)*mem.Addr(page) }

func (k *kit) put(at mem.Addr, h driver.Handle, size mem.Bytes) {
	k.Helper()
	if err := errors.Join(k.Map(at, h), k.Access(at, size)); err != nil {
		k.Fatal(err)
	}
}

// awake fails unless all places can be used, and so much memory is taken.
func (k *kit) awake(what string, args ...any) {
	k.Helper()
	for _, r := range []struct {
		page int
		size mem.Bytes
	}{{0, 3 * page}, {8, page}, {20, page}} {
		if err := k.gpu.Use(0, k.at(r.page), r.size); err != nil {
			k.Errorf(what+": %v", append(args, err)...)
		}
	}
	if err := k.gpu.Sync(); err != nil {
		k.Fatal(err)
	}
	if used := k.gpu.Used(); used != 4*page || k.Asleep() != 0 {
		k.Errorf(what+": %v of memory is taken and %v sleeps", append(args, used, k.Asleep())...)
	}
}

// end gives everything back.
func (k *kit) end() {
	k.Helper()
	err := errors.Join(k.Unmap(k.at(0), 3*page), k.Unmap(k.at(8), page), k.Unmap(k.at(20), page))
	for _, h := range k.handles {
		err = errors.Join(err, k.Release(h))
	}
	if err = errors.Join(err, k.Unreserve(k.base, 32*page), k.Close()); err != nil {
		k.Error(err)
	}
	if k.Asleep() != 0 {
		k.Errorf("%v sleeps of nothing", k.Asleep())
	}
}

// sleep has the first two handles sleep.
func (k *kit) sleep() {
	k.Helper()
	if asleep, err := k.Sleep(k.handles[:2]); !asleep || err != nil {
		k.Fatalf("they sleep: %v, %v", asleep, err)
	}
	if used := k.gpu.Used(); used != page || k.Asleep() != 3*page {
		k.Fatalf("%v is taken and %v sleeps", used, k.Asleep())
	}
}

func (k *kit) wake() {
	k.Helper()
	if err := k.Wake(k.handles[:2]); err != nil {
		k.Fatal(err)
	}
}

func TestSleepAndWake(t *testing.T) {
	k := newKit(t)
	for range 3 {
		k.sleep()
		k.sleep() // does nothing more
		k.wake()
		k.awake("after waking")
		k.wake()
	}
	if calls := k.gpu.Stats().Unmap; calls != 6 {
		t.Errorf("three sleeps of two stretches took %d unmappings", calls)
	}
	k.end()
}

// TestWakesByAddress: each time the places before an address, and the handles that they need.
func TestWakesByAddress(t *testing.T) {
	k := newKit(t)
	k.sleep()
	for _, c := range []struct {
		before int
		used   mem.Bytes
	}{{0, page}, {1, 2 * page}, {8, 4 * page}} {
		if err := k.WakeBefore(k.at(c.before), k.handles[:2]); err != nil {
			t.Fatal(err)
		}
		_, _, mapped := k.gpu.Behind(k.at(8))
		if used := k.gpu.Used(); used != c.used || mapped {
			t.Errorf("before page %d: %v is taken, page 8 is mapped: %t", c.before, used, mapped)
		}
	}
	k.wake()
	k.awake("after waking by address")
	k.sleep()
	if err := errors.Join(k.Unmap(k.at(0), page), k.Unmap(k.at(8), page)); err != nil {
		t.Fatal(err)
	}
	if k.wake(); k.Asleep() != 0 {
		t.Errorf("%v of a handle without a place sleeps", k.Asleep())
	}
	k.put(k.at(0), k.handles[0], page)
	k.put(k.at(8), k.handles[0], page)
	k.end()
}

// TestCallsWhileAsleep: what sleeps is mapped, unmapped and released as if it did not.
func TestCallsWhileAsleep(t *testing.T) {
	k := newKit(t)
	k.sleep()
	if err := k.Unmap(k.at(1), 2*page); err != nil { // the second handle's only place
		t.Fatal(err)
	}
	k.put(k.at(12), k.handles[1], 2*page)
	if used := k.gpu.Used(); used != 3*page || k.Asleep() != page {
		t.Errorf("a handle that slept is mapped: %v is taken and %v sleeps", used, k.Asleep())
	}
	if err := errors.Join(k.gpu.Use(0, k.at(12), 2*page), k.gpu.Sync()); err != nil {
		t.Error(err)
	}
	if err := k.Access(k.at(0), page); err != nil {
		t.Errorf("rights on what sleeps: %v", err)
	}
	k.put(k.at(14), k.handles[0], page) // its two other places sleep on
	if err := k.gpu.Use(0, k.at(0), page); err == nil {
		t.Error("a place is usable that sleeps")
	}
	if err := errors.Join(k.Unmap(k.at(12), 3*page), k.Unmap(k.at(0), page)); err != nil {
		t.Error(err)
	}
	if err := k.Wake(k.handles); err != nil {
		t.Error(err)
	}
	err := errors.Join(k.Unmap(k.at(8), page), k.Unmap(k.at(20), page))
	asleep, failed := k.Sleep(k.handles)
	if err = errors.Join(err, failed); err != nil || !asleep {
		t.Errorf("handles that are mapped nowhere sleep: %v, %v", asleep, err)
	}
	for _, h := range k.handles {
		if err := k.Release(h); err != nil {
			t.Error(err)
		}
	}
	if k.Asleep() != 0 {
		t.Errorf("%v sleeps of nothing", k.Asleep())
	}
	if err := k.Release(k.handles[0]); err == nil {
		t.Error("a handle is released twice")
	}
}

// TestMixedUnmap: a range of which a part sleeps is unmapped in one call.
func TestMixedUnmap(t *testing.T) {
	k := newKit(t)
	if asleep, err := k.Sleep(k.handles[:1]); !asleep || err != nil {
		t.Fatal(asleep, err)
	}
	if err := errors.Join(k.Access(k.at(0), 3*page), k.Unmap(k.at(0), 3*page)); err != nil {
		t.Error(err)
	}
	if err := k.Wake(k.handles); err != nil {
		t.Error(err)
	}
	if err := errors.Join(k.gpu.Use(0, k.at(8), page), k.gpu.Sync()); err != nil {
		t.Error(err)
	}
	k.put(k.at(0), k.handles[0], page)
	k.put(k.at(1), k.handles[1], 2*page)
	k.awake("mapped anew")
	k.end()
}

// exporter is a device that exports: a handle's file descriptor is its number and 100.
type exporter struct{ device.Device }

func (exporter) Export(h driver.Handle) (driver.Shared, error) {
	return driver.Shared{FD: int(h) + 100}, nil
}
func (exporter) MapShared(mem.Addr, driver.Shared, mem.Bytes) error { return nil }

// TestExportedStaysAwake: what a range lies in is told in the order of addresses, and does not
// sleep until each export has ended.
func TestExportedStaysAwake(t *testing.T) {
	k := newKit(t)
	if _, _, err := k.Export(k.at(0), page); err == nil {
		t.Error("a device exports that cannot")
	}
	k.Device.Device = exporter{k.fault}
	at, all, err := k.Export(k.at(1)+100, 2*page-100)
	if err != nil || at != k.at(1) || len(all) != 1 || all[0].Number != k.handles[1] ||
		all[0].Size != 2*page {
		t.Errorf("the second handle is at %#x: %+v, %v", at, all, err)
	}
	if at, all, err = k.Export(k.at(2), page); err != nil || at != k.at(1) || len(all) != 1 {
		t.Errorf("its second page begins at %#x: %+v, %v", at, all, err)
	}
	if at, all, err = k.Export(k.at(0), 3*page); err != nil || at != k.at(0) || len(all) != 2 ||
		all[0].Number != k.handles[0] {
		t.Errorf("both begin at %#x: %+v, %v", at, all, err)
	}
	k.Unexport(k.at(0), 3*page)
	for range 2 {
		if asleep, err := k.Sleep(k.handles); !asleep || err != nil || k.Asleep() != 2*page {
			t.Errorf("%v sleeps of what nobody has: %v, %v", k.Asleep(), asleep, err)
		}
		if err := errors.Join(k.gpu.Use(0, k.at(1), 2*page), k.gpu.Sync()); err != nil {
			t.Errorf("what is exported: %v", err)
		}
		if err := k.Wake(k.handles); err != nil {
			t.Error(err)
		}
		k.awake("beside what is exported")
	}
	k.Unexport(k.at(1)+100, 2*page-100)
	k.Unexport(k.at(2), page)
	k.sleep()
	k.wake()
	k.end()
}
