package replay

import (
	"context"
	"testing"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// TestGMLakeServesLive: GMLake's algorithm behind the live allocator, on a device
// that keeps the driver's rules, reserves what the replay of it alone says.
func TestGMLakeServesLive(t *testing.T) {
	capacity, limit := 80*mem.GiB, 64*mem.MiB
	for _, name := range []string{"llama_recompute", "vit_streams", "llama_varlen"} {
		tr, err := trace.ReadFile("../../tests/traces/" + name + ".csv.gz")
		if err != nil {
			t.Fatal(err)
		}
		want := replayed(t, tr, "gmlake", Config{Capacity: capacity, FragLimit: limit})

		live := replayed(t, tr, "stalloc", Config{Capacity: capacity, FragLimit: limit, Pool: "gmlake"})
		if live.Allocator != "stalloc-gmlake" || live.PeakReserved != want.PeakReserved || live.Hits+live.Misses > 0 || live.OOM {
			t.Errorf("%s: %+v live, %v reserved by the algorithm alone", name, live, want.PeakReserved)
		}
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
	if err := CheckPool("lake"); err == nil || err.Error() != `unknown pool "lake": choose from range, gmlake` {
		t.Errorf("got %v", err)
	}
}

// TestGMLakeCalls counts, by hand, the driver calls of 50 MiB and of a small segment, and
// of their return: a map and a grant of rights for each of 25 chunks.
func TestGMLakeCalls(t *testing.T) {
	tr := script(t, "calls", "# workload calls\na,0,52428800,0,1\na,1,1000,0,1\nr,0,2\nf,0,2\nr,1,2\nf,1,2\ne,3")
	got := replayOne(t, "gmlake", tr, config)
	const reserve, create, mapped, access, unmap, release, small = 2, 25, 25, 25, 25, 25, 2
	if want := int64(reserve + create + mapped + access + unmap + release + small); got.DriverCalls != want {
		t.Errorf("%d calls, want %d", got.DriverCalls, want)
	}
}
