//go:build cgo

package cuda

import (
	"os"
	"testing"

	"stalloc/actors/device"
	"stalloc/actors/device/devicetest"
	"stalloc/tests/fakecuda/fake"
)

// lib is the simulated driver that the tests of this package share. It is built
// for the first test that needs it: those for a real device do not.
var lib *fake.Library

var folder string

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

func load(t testing.TB) {
	t.Helper()
	if lib != nil {
		return
	}
	var err error
	if folder, err = os.MkdirTemp("", "fakecuda"); err == nil {
		lib, err = fake.Load(folder)
	}
	if err != nil {
		t.Fatal("cannot build the simulated driver: ", err)
	}
}

// restart gives the simulated driver a fresh start with these settings.
func restart(t testing.TB, settings map[string]string) {
	t.Helper()
	load(t)
	all := map[string]string{"FAKECUDA_CAPACITY": "134217728", "FAKECUDA_DEVICES": "1",
		"FAKECUDA_EVENT_DELAY": "0"}
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
	return openAt(t, lib.Path)
}

func openAt(t testing.TB, path string) *Device {
	t.Helper()
	driver, err := Open(path)
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
