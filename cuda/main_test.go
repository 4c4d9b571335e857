//go:build cgo

package cuda

import (
	"fmt"
	"os"
	"testing"

	"stalloc/actors/device"
	"stalloc/actors/device/devicetest"
	"stalloc/tests/fakecuda/fake"
)

// lib is the simulated driver that all tests of this package share.
var lib *fake.Library

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "fakecuda")
	if err == nil {
		lib, err = fake.Load(folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot build the simulated driver:", err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// restart gives the simulated driver a fresh start with these settings.
func restart(t testing.TB, settings map[string]string) {
	t.Helper()
	all := map[string]string{"FAKECUDA_CAPACITY": "134217728", "FAKECUDA_DEVICES": "1", "FAKECUDA_EVENT_DELAY": "0"}
	for name, value := range settings {
		all[name] = value
	}
	for name, value := range all {
		t.Setenv(name, value)
	}
	lib.Reset()
}

// open opens the first device of the simulated driver.
func open(t testing.TB) *Device {
	t.Helper()
	driver, err := Open(lib.Path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := driver.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestConformance runs the suite over the driver's table.
func TestConformance(t *testing.T) {
	for _, delay := range []string{"0", "3"} {
		t.Run("delay "+delay, func(t *testing.T) {
			devicetest.Run(t, func() device.Device {
				restart(t, map[string]string{"FAKECUDA_EVENT_DELAY": delay})
				return open(t)
			})
		})
	}
}
