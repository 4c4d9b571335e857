package replay

import (
	"context"
	"testing"

	"stalloc/trace"
)

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

// TestGMLakeCalls counts, by hand, the driver calls of 50 MiB and of a small segment, and
// of their return: a map and a grant of rights for each of 26 chunks.
func TestGMLakeCalls(t *testing.T) {
	tr := script(t, "calls",
		"# workload calls\na,0,52428800,0,1\na,1,1000,0,1\nr,0,2\nf,0,2\nr,1,2\nf,1,2\ne,3")
	got := replayOne(t, "gmlake", tr, config)
	const asked, reserve, create, mapped, access, wait, unmap, release = 1, 1, 26, 26, 26, 1, 2, 26
	if want := int64(asked + reserve + create + mapped + access + wait + unmap +
		release); got.DriverCalls != want {
		t.Errorf("%d calls, want %d", got.DriverCalls, want)
	}
}
