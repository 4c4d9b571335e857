package replay

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"stalloc/actors"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/trace"
)

// TestWarnings replays runs that know their steps from an earlier one on devices around their load:
// where a step that comes next will not fit that is said before it, once, and nowhere else.
func TestWarnings(t *testing.T) {
	said := 0
	for _, name := range []string{"gpt2_naive", "llama_recompute", "vit_streams", "llama_varlen",
		"hf_trainer", "megatron_dense.r0"} {
		tr, err := trace.ReadFile(folder + name + ".csv.gz")
		if err != nil {
			t.Fatal(err)
		}
		// nil where no step came again: the run knows nothing
		left, whole, _ := Plan(t.Context(), tr)
		for _, share := range []float64{0.93, 1.02} {
			at, end, r := warned(t, tr, mem.Bytes(share*float64(whole.PeakLoad)), left)
			if at < 0 {
				continue
			}
			said++
			for i := at + 1; i < end; i++ {
				if e := tr.Events[i]; !r.OOM || e.Kind == trace.Mark && Boundary(e.Mark) {
					t.Fatalf("%s, a device of %v of the load: a step is said not to fit and does: %+v", name, share, r)
				}
			}
		}
	}
	if said < 3 {
		t.Errorf("%d steps were said not to fit, expected those of three programs on devices below the load", said)
	}
}

// warned returns the events after which a warning came, and at which the run ended; -1: none came.
func warned(t *testing.T, tr *trace.Trace, capacity mem.Bytes, left *plan.Plan) (at, end int,
	r Result) {
	t.Helper()
	core, logs := observer.New(zap.WarnLevel)
	l, err := start(tr, Config{Capacity: capacity}, actors.Options{Plan: left, Log: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	at = -1
	r, err = drive(t.Context(), tr, l, nil, func(event int) {
		if end = event + 1; at < 0 && logs.Len() > 0 {
			at = event
		}
	})
	if err != nil || logs.Len() > 1 {
		t.Fatalf("%s: %v, %v", tr.Name, err, logs.All())
	}
	return at, end, r
}
