package replay

import (
	"testing"

	"stalloc/baseline/paper"
	"stalloc/internal/mem"
	"stalloc/internal/without"
	"stalloc/trace"
)

func recording(t *testing.T, name string) *trace.Trace {
	t.Helper()
	tr, err := trace.ReadFile("../tests/traces/" + name + ".csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestTwoStarts: what the first start needs counts in a cold run and not in a warm one, and steps
// are the second's alone.
func TestTwoStarts(t *testing.T) {
	for _, name := range []string{"llama_lora", "mixtral_moe"} {
		checkStarts(t, recording(t, name))
	}
	tr := recording(t, "llama_lora")
	config := Config{Capacity: 80 * mem.GiB, Warm: true}
	warm := replayOne(t, "paper", tr, config)
	if waste := warm.Fragmentation; waste > 0.001 || warm.Misses > 0 {
		t.Errorf("every step repeats, and %.4f is wasted, %d requests miss", waste, warm.Misses)
	}
	// A device that is too small for the first start, and not for the second.
	between := (warm.PeakReserved + mem.HandleSize).Up()
	if r := replayOne(t, "paper", tr, Config{Capacity: between}); !r.OOM {
		t.Errorf("both starts fit in %v", between)
	}
	if r := replayOne(t, "paper", tr, Config{Capacity: between, Warm: true}); r.OOM {
		t.Errorf("the second start does not fit in %v", between)
	}
	config.Without = without.Plans
	if r := replayOne(t, "paper", tr, config); r.PeakReserved !=
		replayOne(t, "native", tr, Config{Capacity: 80 * mem.GiB}).PeakReserved {
		t.Errorf("without a plan %v are reserved, unlike native", r.PeakReserved)
	}
}

func checkStarts(t *testing.T, tr *trace.Trace) {
	t.Helper()
	config := Config{Capacity: 80 * mem.GiB}
	three := *tr
	three.Events = tr.Events[:tr.Steps()[paper.Steps-1][1]]
	native := replayOne(t, "native", &three, config)
	cold := replayOne(t, "paper", tr, config)
	config.Warm = true
	warm := replayOne(t, "paper", tr, config)
	if warm.Mode != Warm || cold.Mode != Cold || warm.Hits == 0 {
		t.Fatalf("modes %s and %s, %d hits", warm.Mode, cold.Mode, warm.Hits)
	}
	if cold.PeakReserved != max(native.PeakReserved, warm.PeakReserved) || cold.Hits != warm.Hits ||
		cold.DriverCalls != native.DriverCalls+warm.DriverCalls ||
		cold.SteadyDriverCalls != warm.SteadyDriverCalls {
		t.Errorf("both starts: %+v, the first: %+v, the second: %+v", cold, native, warm)
	}
}

// TestIgnoredStreams: late frees cost the paper's allocator most of what it saves, unless memory
// that other streams use is handed out.
func TestIgnoredStreams(t *testing.T) {
	tr := recording(t, "more/megatron_vppr.r3")
	config := Config{Capacity: 80 * mem.GiB, Warm: true}
	safe := replayOne(t, "paper", tr, config)
	config.IgnoreStreams = true
	published := replayOne(t, "paper", tr, config)
	if published.Fragmentation > 0.001 || safe.Fragmentation < 0.02 {
		t.Errorf("waste %.4f with streams ignored, %.4f else", published.Fragmentation,
			safe.Fragmentation)
	}
}
