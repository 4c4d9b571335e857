package plan

import (
	"testing"

	"stalloc/internal/mem"
)

func TestValley(t *testing.T) {
	var r Recorder
	for id := range uint64(20) { // gradients
		r.Alloc(id, mem.MiB)
	}
	r.Boundary()
	r.Alloc(100, 2048) // the batch
	for id := range uint64(20) {
		r.Free(id)
	}
	for id := uint64(200); id < 300; id++ { // what the step does
		r.Alloc(id, mem.MiB)
	}
	for id := uint64(200); id < 300; id++ {
		r.Free(id)
	}
	r.Free(100)
	if got, want := r.Boundary().Valley(), (Valley{Requests: 1, Drop: 20*mem.MiB - 2048}); got != want {
		t.Errorf("gradients are freed first: %+v, expected %+v", got, want)
	}
	for id := uint64(200); id < 220; id++ {
		r.Alloc(id, mem.MiB)
	}
	for id := uint64(200); id < 220; id++ {
		r.Free(id)
	}
	if got := r.Boundary().Valley(); got != (Valley{}) {
		t.Errorf("nothing is live at the beginning: %+v", got)
	}
	if got := new(Step).Valley(); got != (Valley{}) {
		t.Errorf("an empty step: %+v", got)
	}
}
