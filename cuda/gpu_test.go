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
	driver, err := Open("")
	if err != nil {
		t.Fatal(err)
	}
	d, err := driver.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestGPUConformance runs the suite on the first GPU.
func TestGPUConformance(t *testing.T) {
	devicetest.Run(t, func() device.Device { return openGPU(t) })
}

// TestGPUCosts logs what the calls cost through this package on this device,
// beside the table that the simulated device charges by, and checks that a range
// of 256 handles works.
func TestGPUCosts(t *testing.T) {
	gpu := openGPU(t)
	start := time.Now()
	d := device.NewCount(gpu, func() time.Duration { return time.Since(start) })
	const pages = 256
	addr, err := d.Reserve(pages * mem.HandleSize)
	if err != nil {
		t.Fatal(err)
	}
	var handles [pages]driver.Handle
	for i := range handles {
		if handles[i], err = d.Create(mem.HandleSize); err != nil {
			t.Fatal(err)
		}
		if err := d.Map(addr+mem.Addr(i)*mem.Addr(mem.HandleSize), handles[i]); err != nil {
			t.Fatal(err)
		}
	}
	f, err := d.Record(0)
	err = errors.Join(err, d.Access(addr, pages*mem.HandleSize), d.Sync(0))
	done, doneErr := d.Done(f)
	if err := errors.Join(err, doneErr, gpu.Write(addr, make([]byte, pages*mem.HandleSize))); err != nil || !done {
		t.Fatalf("fence passed: %t, %v", done, err)
	}
	err = d.Unmap(addr, pages*mem.HandleSize)
	for _, h := range handles {
		err = errors.Join(err, d.Release(h))
	}
	if err := errors.Join(err, d.Unreserve(addr, pages*mem.HandleSize), d.Close()); err != nil {
		t.Fatal(err)
	}
	counts := d.Counts()
	for k := range device.Kinds {
		if n := counts.Calls[k]; n > 0 {
			t.Logf("%s: %-10s %4d calls, %v each", d.Name(), k, n, counts.Time[k]/time.Duration(n))
		}
	}
}
