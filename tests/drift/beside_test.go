package drift

import (
	"testing"
	"testing/synctest"

	"stalloc/actors"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
)

// TestBeside makes plans beside the program, each within the step that follows: it serves
// a step or two later than where the program waits for it.
func TestBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		device := sim.New(sim.Config{Capacity: 100 * mem.GiB})
		local, err := actors.OpenLocal(device, actors.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer local.Close()
		p := On(local, device)
		p.Each = synctest.Wait
		m := &Model{Layers: 40, Width: 96 * mem.MiB, Batch: 64}
		m.Setup(p)
		p.Step()
		train := func() { m.Train(p); p.Step() }
		repeat(8, train)
		m.Batch = 40
		repeat(6, train)
		m.Unload(p)
		if p.Err != nil {
			t.Fatal(p.Err)
		}
		for _, change := range []int{1, 9} {
			for i := change + most + 2; i < change+6; i++ {
				if p.Steps()[i].Bad() {
					t.Errorf("step %d, %d behind the change, was bad", i, i-change)
				}
			}
		}
		leaks(t, p, local, device)
	})
}
