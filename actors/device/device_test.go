package device_test

import (
	"testing"

	"stalloc/actors/device"
	"stalloc/actors/device/devicetest"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
)

// watched closes what an owner wraps instead of the owner, which would give back
// what the suite leaks on purpose.
type watched struct {
	*device.Owner
	inner device.Device
}

func (w watched) Close() error { return w.inner.Close() }

func simulated() *sim.Device { return sim.New(sim.Config{Capacity: 256 * mem.MiB}) }

// TestWrappersConform: a wrapper that changes nothing by its settings is as
// good a device as what it wraps, also when both are stacked.
func TestWrappersConform(t *testing.T) {
	for name, open := range map[string]func() device.Device{
		"fault": func() device.Device { return device.NewFault(simulated(), 1) },
		"owner": func() device.Device { d := simulated(); return watched{device.NewOwner(d), d} },
		"both":  func() device.Device { d := simulated(); return watched{device.NewOwner(device.NewFault(d, 1)), d} },
	} {
		t.Run(name, func(t *testing.T) { devicetest.Run(t, open) })
	}
}
