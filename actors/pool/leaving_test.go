package pool

import (
	"testing"
	"time"

	"stalloc/actors/host"
	"stalloc/actors/region"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
)

// TestNoMemoryWhileARegionLeaves: a request that finds no memory is not tried again behind each
// batch, for it would make what there is and give all back each time.
func TestNoMemoryWhileARegionLeaves(t *testing.T) {
	const unit, copies = 128 * mem.MiB, sim.FirstMade
	h := host.NewModel()
	k := newKitOn(t, h)
	number, err := region.Number("test: leaves")
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		k.malloc(0, number, unit)
	}
	others, err := k.gpu.Create(5 * mem.GiB)
	if err != nil {
		t.Fatal(err)
	}
	h.Lock()
	err = k.EndAwake(number, 0, Closing{Changed: true, All: true})
	h.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	copied := mem.Tick(0)
	k.Clock.Sleep = func(time.Duration) {
		k.gpu.Finish(0)
		copied = min(copied+1, k.gpu.Place(copies))
		k.gpu.FinishTo(copies, copied)
	}
	k.malloc(0, 0, 22*unit)
	if tries := k.Stats().Engine.Refused + 1; tries > 2 {
		t.Errorf("it is tried %d times", tries)
	}
	if err := k.gpu.Release(others); err != nil {
		t.Error(err)
	}
}
