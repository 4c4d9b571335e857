package replay

import (
	"context"
	"testing"

	"stalloc/actors"
	"stalloc/cuda/sim"
	"stalloc/engine/gmlake"
	"stalloc/internal/mem"
	"stalloc/trace"
)

// TestGMLakeServesLive: GMLake's algorithm behind the live allocator, on a device
// that keeps the driver's rules, reserves what its simulation says; and it lives
// beside a plan, whose arena is a block of its own.
func TestGMLakeServesLive(t *testing.T) {
	capacity, limit := 80*mem.GiB, 64*mem.MiB
	for _, name := range []string{"llama_recompute", "vit_streams", "llama_varlen"} {
		tr, err := trace.ReadFile("../../tests/traces/" + name + ".csv.gz")
		if err != nil {
			t.Fatal(err)
		}
		want := replayed(t, tr, "gmlake", Config{Capacity: capacity, FragLimit: limit})

		lake := gmlake.DefaultConfig()
		lake.FragLimit = limit
		target, err := newLive(sim.New(sim.Config{Capacity: capacity, Manual: true}), actors.Options{NoPlan: true, GMLake: &lake})
		if err != nil {
			t.Fatal(err)
		}
		alone, err := Run(context.Background(), tr, target, nil)
		if err != nil || alone.PeakReserved != want.PeakReserved || alone.OOM {
			t.Errorf("%s: %v reserved, the simulation %v: %v", name, alone.PeakReserved, want.PeakReserved, err)
		}

		planned := replayed(t, tr, "stalloc", Config{Capacity: capacity, FragLimit: limit, Pool: "gmlake"})
		own := replayed(t, tr, "stalloc", Config{Capacity: capacity})
		if planned.Allocator != "stalloc-gmlake" || planned.Hits == 0 || planned.OOM {
			t.Errorf("%s: %+v under GMLake, %+v under the engine", name, planned, own)
		}
		t.Logf("%s: reserved %v simulated, %v live, %v beside a plan; %v with the engine",
			name, want.PeakReserved, alone.PeakReserved, planned.PeakReserved, own.PeakReserved)
	}
}

func replayed(t testing.TB, tr *trace.Trace, name string, c Config) Result {
	t.Helper()
	a, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Replay(context.Background(), tr, c, nil)
	if err != nil {
		t.Fatalf("%s, %s: %v", tr.Name, name, err)
	}
	return r
}

func TestCheckPool(t *testing.T) {
	for _, name := range Pools {
		if err := CheckPool(name); err != nil {
			t.Error(err)
		}
	}
	if err := CheckPool("lake"); err == nil || err.Error() != `unknown pool "lake": choose from stitch, gmlake, range` {
		t.Errorf("got %v", err)
	}
}
