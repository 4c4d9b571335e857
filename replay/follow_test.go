package replay

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"testing"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// TestFollowSeesTheWholeRun: what Follow saw adds up to what Replay says, and no two
// live blocks lie over each other.
func TestFollowSeesTheWholeRun(t *testing.T) {
	tr, err := trace.ReadFile(filepath.Join("..", "tests", "traces", "llama_naive.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Capacity: 80 * mem.GiB, FragLimit: DefaultFragLimit}
	for _, a := range Allocators {
		var peak mem.Bytes
		var hits, misses int64
		events := 0
		at := make(map[int64]mem.Addr)
		var held, most mem.Bytes
		r, err := a.Follow(context.Background(), tr, c, func(s Seen) {
			if s.Event != events {
				t.Fatalf("%s: event %d comes after %d", a.Name, s.Event, events-1)
			}
			events++
			peak = max(peak, s.Reserved)
			// of the paper's two starts the first may hold more
			more := a.Name == "paper" && held < s.Reserved
			if a.Name != "gmlake" && held != s.Reserved && !more {
				t.Fatalf("%s, event %d: ranges of %v have memory, %v are reserved", a.Name, s.Event,
					held, s.Reserved)
			}
			if s.Hit {
				hits++
			}
			if s.Miss {
				misses++
			}
			if e := tr.Events[s.Event]; e.Kind == trace.Alloc && e.Size > 0 {
				if s.Addr == 0 {
					t.Fatalf("%s: block %d lies nowhere", a.Name, e.ID)
				}
				at[e.ID] = s.Addr
			}
		}, func(_ mem.Addr, size mem.Bytes, got bool) {
			if got {
				held += size
			} else {
				held -= size
			}
			most = max(most, held)
		})
		if err != nil {
			t.Fatal(err)
		}
		if events != len(tr.Events) || peak > r.PeakReserved ||
			float64(peak) < 0.99*float64(r.PeakReserved) {
			t.Errorf("%s: %d of %d events, %v reserved, Replay says %v", a.Name, events,
				len(tr.Events), peak, r.PeakReserved)
		}
		if hits != r.Hits || misses != r.Misses {
			t.Errorf("%s: %d hits and %d misses, Replay says %d and %d", a.Name, hits, misses,
				r.Hits, r.Misses)
		}
		// it stitches, so its addresses may share memory and addresses differ
		if a.Name != "gmlake" {
			disjoint(t, a.Name, tr, at)
			if most > r.PeakReserved || a.Name != "paper" && most < r.PeakReserved {
				t.Errorf("%s: ranges of %v have memory at the peak, Replay says %v", a.Name, most,
					r.PeakReserved)
			}
		}
	}
}

// disjoint goes through the run with its live blocks sorted by address: a new one must
// end before its upper neighbour and begin after its lower one.
func disjoint(t *testing.T, name string, tr *trace.Trace, at map[int64]mem.Addr) {
	t.Helper()
	type block struct {
		from, to mem.Addr
		id       int64
	}
	var live []block
	find := func(from mem.Addr) int {
		i, _ := slices.BinarySearchFunc(live, from,
			func(b block, from mem.Addr) int { return cmp.Compare(b.from, from) })
		return i
	}
	for _, e := range tr.Events {
		switch e.Kind {
		case trace.Alloc:
			b := block{at[e.ID], at[e.ID] + mem.Addr(e.Size), e.ID}
			i := find(b.from)
			if i > 0 && live[i-1].to > b.from || i < len(live) && live[i].from < b.to {
				t.Fatalf("%s: block %d lies over another one", name, e.ID)
			}
			live = slices.Insert(live, i, b)
		case trace.FreeCompleted:
			if i := find(at[e.ID]); i < len(live) && live[i].id == e.ID {
				live = slices.Delete(live, i, i+1)
			}
		}
	}
}
