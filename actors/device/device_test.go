package device_test

import (
	"testing"

	"stalloc/actors/device"
	"stalloc/actors/device/devicetest"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
)

func simulated() *sim.Device { return sim.New(sim.Config{Capacity: 256 * mem.MiB}) }

// TestWrapperConforms: a wrapper that changes nothing by its settings is as good a device as
// what it wraps.
func TestWrapperConforms(t *testing.T) {
	devicetest.Run(t, func() device.Device { return device.NewFault(simulated(), 1) })
}
