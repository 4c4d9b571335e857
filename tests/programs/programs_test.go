package programs

import (
	"reflect"
	"testing"

	"stalloc/internal/mem"
	"stalloc/replay"
	"stalloc/trace"
)

func replayed(t *testing.T, tr *trace.Trace, allocator string, capacity mem.Bytes) replay.Result {
	t.Helper()
	a, err := replay.Lookup(allocator)
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Replay(t.Context(), tr, replay.Config{Capacity: capacity}, nil)
	if err != nil || r.OOM {
		t.Fatalf("%s, %s: out of memory %v, error %v", tr.Name, allocator, r.OOM, err)
	}
	return r
}

// above is a device that is a share larger than what is live at most, and 32 MiB.
func above(tr *trace.Trace, share float64) mem.Bytes {
	return mem.RoundUp(mem.Bytes(share*float64(tr.PeakLoad()))+32*mem.MiB, mem.HandleSize)
}

// TestKVGrowth: blocks that grow step by step are served in hardly more than what is live, where
// expandable segments hold a block more, and the driver maps what they grow by. To map each block
// anew takes it 1.5 s.
func TestKVGrowth(t *testing.T) {
	tr := KVGrowth()
	ours := replayed(t, tr, "stalloc", above(tr, 1.05))
	theirs := replayed(t, tr, "expandable", above(tr, 1.05))
	if ours.Fragmentation > 0.006 || ours.Retries > 0 || theirs.Fragmentation < 0.02 {
		t.Errorf("wasted %.4f with %d retries, with expandable segments %.4f",
			ours.Fragmentation, ours.Retries, theirs.Fragmentation)
	}
	if ours.DriverTimeUS > 250e3 {
		t.Errorf("the driver takes %.0f ms", ours.DriverTimeUS/1e3)
	}
}

// TestGatherFlush: near the limit of the device no peer flushes less.
func TestGatherFlush(t *testing.T) {
	tr := GatherFlush()
	for _, share := range []float64{1.04, 1.08, 1.2} {
		ours := replayed(t, tr, "stalloc", above(tr, share))
		for _, peer := range []string{"native", "expandable"} {
			if r := replayed(t, tr, peer, above(tr, share)); r.Retries < ours.Retries {
				t.Errorf("at %v of the load: %d flushes, %s %d", share, ours.Retries, peer,
					r.Retries)
			}
		}
	}
}

// TestRandom: a seed is one program, which wastes less than with expandable segments, and at most
// as much as the worst of a thousand (make programs).
func TestRandom(t *testing.T) {
	for seed := range uint64(25) {
		tr := Random(seed)
		if seed < 3 && !reflect.DeepEqual(tr, Random(seed)) {
			t.Fatalf("seed %d stands for two programs", seed)
		}
		ours := replayed(t, tr, "stalloc", device)
		theirs := replayed(t, tr, "expandable", device)
		if ours.Fragmentation > worst || ours.Fragmentation > theirs.Fragmentation {
			t.Errorf("seed %d: %.4f wasted, with expandable segments %.4f", seed,
				ours.Fragmentation, theirs.Fragmentation)
		}
		if ours.Requests == 0 || len(ours.Steps) < 4 || tr.PeakLoad() < mem.GiB/4 {
			t.Errorf("seed %d: no program: %d requests, %d steps, a load of %v", seed,
				ours.Requests, len(ours.Steps), tr.PeakLoad())
		}
	}
}

const (
	device = 160 * mem.GiB
	worst  = 0.124
)
