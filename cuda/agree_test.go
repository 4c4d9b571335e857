//go:build cgo

package cuda

import (
	"errors"
	"testing"
	"time"

	"stalloc/actors/device/devicetest"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
)

// TestSimulatedDevicesAgree makes the same random calls on the simulated device
// and through the driver's table on the simulated driver: every answer, error
// codes included, must be the same, so that what is proved on the fast one holds
// for the one with bytes.
func TestSimulatedDevicesAgree(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range uint64(4) {
		restart(t, map[string]string{"FAKECUDA_CAPACITY": "50331648", "FAKECUDA_EVENT_DELAY": "2"})
		simulated := sim.New(sim.Config{Capacity: 48 * mem.MiB, FenceDelay: 2})
		real := open(t)
		devicetest.Random(t, seed+i, 1000, simulated, real)
		if err := errors.Join(simulated.Check(), simulated.Close(), real.Close()); err != nil {
			t.Fatalf("seed %d: %v", seed+i, err)
		}
		for _, kind := range []string{"handles", "mappings", "reservations", "blocks", "events",
			"contexts"} {
			if n := lib.Live(kind); n != 0 {
				t.Errorf("seed %d: the driver is left with %d %s", seed+i, n, kind)
			}
		}
	}
}
