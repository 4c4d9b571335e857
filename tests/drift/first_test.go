package drift

import (
	"testing"
	"time"

	"stalloc/actors"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
)

// TestFirstSteps: of a program whose steps repeat no memory is made twice, none goes back, and from
// the third step on the driver is not called.
func TestFirstSteps(t *testing.T) {
	device := sim.New(sim.Config{Capacity: 400 * mem.GiB})
	local, err := actors.OpenLocal(device,
		actors.Options{Inline: true, Clock: actors.Clock{Now: device.Time}})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	p := On(local, device)
	m := &Model{Layers: 40, Width: 96 * mem.MiB, Batch: 64}
	m.Setup(p)
	p.Step()
	var at []sim.Stats
	repeat(8, func() { m.Train(p); p.Step(); at = append(at, device.Stats()) })
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	s := local.Stats()
	if at[7].Release > 0 || s.Reserved != s.PeakReserved {
		t.Errorf("%d handles were released; %v are reserved, at the peak %v", at[7].Release,
			s.Reserved, s.PeakReserved)
	}
	if most := p.Peak + p.Peak/100; s.PeakReserved > most {
		t.Errorf("%v are reserved, at most %v are meant", s.PeakReserved, most)
	}
	for i := 2; i < len(at); i++ {
		if calls := at[i].Calls() - at[i-1].Calls(); calls > 0 {
			t.Errorf("step %d: %d calls of the driver", i+1, calls)
		}
	}
	t.Logf("%d handles for %v, %v in the driver", at[7].Create, s.PeakReserved,
		at[7].Time.Round(time.Millisecond))
	if mean := s.PeakReserved / mem.Bytes(at[7].Create); mean < 6*mem.MiB {
		t.Errorf("handles of %v on average", mean)
	}
}
