package actors

import (
	"errors"
	"testing"

	"stalloc/actors/pool"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
)

// TestLateFreesStay: where a freed block of a region is still used by another stream, its memory
// does not leave with the rest, neither when the region is closed nor when a request is short.
func TestLateFreesStay(t *testing.T) {
	const unit, copies = 16 * mem.MiB, mem.StreamID(1)<<48 + 1 // of copies out
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
