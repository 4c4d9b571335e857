package replay

import (
	"context"
	"testing"

	"stalloc/actors"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/replay/shadow"
	"stalloc/trace"
)

// estimated replays a recording through the allocator and returns what it says of PyTorch's.
func estimated(t *testing.T, tr *trace.Trace, capacity mem.Bytes) actors.Native {
	t.Helper()
	l, err := newLive(sim.New(sim.Config{Capacity: capacity, Manual: true}),
		actors.Options{Inline: true, Shadow: shadow.New})
	if err != nil {
		t.Fatal(err)
	}
	l.others = otherStreams(tr)
	e := &estimating{live: l}
	if _, err = Run(context.Background(), tr, e, nil); err != nil {
		t.Fatal(err)
	}
	return e.native
}

// estimating is a run that tells what it has estimated.
type estimating struct {
	*live
	native actors.Native
}

func (e *estimating) Finish() (Counts, error) {
	e.note(e.local.Step()) // what came after the last mark
	e.native = e.local.Stats().Native
	return e.live.Finish()
}

// TestNativeIsWhatItsReplaySays: what a run says of PyTorch's allocator is what the recording of
// that run says when it is replayed.
func TestNativeIsWhatItsReplaySays(t *testing.T) {
	for _, name := range []string{"llama_naive", "llama_varlen", "hf_trainer", "pyg_gat",
		"vit_streams"} {
		tr, err := trace.ReadFile("../tests/traces/" + name + ".csv.gz")
		if err != nil {
			t.Fatal(err)
		}
		want := replayed(t, tr, "native", Config{Capacity: device})
		got := estimated(t, tr, device)
		if got.PeakReserved != want.PeakReserved || got.Steps == 0 || got.OutOfMemory {
			t.Errorf("%s: %+v, its replay needs %v", name, got, want.PeakReserved)
		}
	}
}

// TestNativeRunsOutWhereItsReplayDoes: on a device that is full with what the program needs.
func TestNativeRunsOutWhereItsReplayDoes(t *testing.T) {
	tr, err := trace.ReadFile("../tests/traces/llama_varlen.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	small := mem.RoundUp(replayed(t, tr, "stalloc", Config{Capacity: device}).PeakReserved, mem.GiB)
	want := replayed(t, tr, "native", Config{Capacity: small})
	got := estimated(t, tr, small)
	if !want.OOM || !got.OutOfMemory || got.PeakReserved != want.PeakReserved {
		t.Errorf("%v: %+v, its replay: %+v", small, got, want)
	}
}
