//go:build gpu && cgo

package cuda

import (
	"errors"
	"testing"
	"time"

	"stalloc/actors/device"
	"stalloc/actors/device/devicetest"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

func openGPU(t testing.TB) *Device {
	t.Helper()
	return openAt(t, "")
}

// TestGPUConformance runs the suite on the first GPU.
func TestGPUConformance(t *testing.T) {
	devicetest.Run(t, func() device.Device { return openGPU(t) })
}

// TestGPUCosts logs what the calls cost through this package on this device,
// beside the table that the simulated device charges by, and checks that a range
// of 256 handles works.
func TestGPUCosts(t *testing.T) {
	d := openGPU(t)
	timed := func(name string, calls int, call func(i int) error) {
		t.Helper()
		start := time.Now()
		for i := range calls {
			if err := call(i); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s: %-10s %4d calls, %v each", d.Name(), name, calls,
			time.Since(start)/time.Duration(calls))
	}
	const pages = 256
	var addr mem.Addr
	var handles [pages]driver.Handle
	var f driver.Fence
	timed("Reserve", 1, func(int) (err error) {
		addr,
			err = d.Reserve(pages * mem.HandleSize)
		return
	})
	timed("Create", pages, func(i int) (err error) {
		handles[i],
			err = d.Create(mem.HandleSize)
		return
	})
	timed("Map", pages, func(i int) error {
		return d.Map(addr+mem.Addr(i)*mem.Addr(mem.HandleSize),
			handles[i])
	})
	timed("Record", 1, func(int) (err error) { f, err = d.Record(0); return })
	timed("Access", 1, func(int) error { return d.Access(addr, pages*mem.HandleSize) })
	timed("Sync", 1, func(int) error { return d.Sync() })
	timed("Done", 1, func(int) error {
		done, err := d.Done(f)
		if err == nil && !done {
			err = errors.New("the fence has not passed")
		}
		return err
	})
	if err := d.Write(addr, make([]byte, pages*mem.HandleSize)); err != nil {
		t.Fatal(err)
	}
	timed("Unmap", 1, func(int) error { return d.Unmap(addr, pages*mem.HandleSize) })
	timed("Release", pages, func(i int) error { return d.Release(handles[i]) })
	timed("Unreserve", 1, func(int) error { return d.Unreserve(addr, pages*mem.HandleSize) })
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
