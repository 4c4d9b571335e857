package report

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"stalloc/baseline"
	"stalloc/internal/mem"
	"stalloc/replay"
	"stalloc/trace"
)

// TestWasted: what is told of native's memory is what its simulation counts, by PyTorch's own
// statistics, before it takes the last of it. Recordings of different kinds: varying lengths,
// streams, recomputation, graphs.
func TestWasted(t *testing.T) {
	for _, name := range []string{"llama_varlen", "vit_streams", "llama_recompute", "pyg_gat"} {
		t.Run(name, func(t *testing.T) {
			tr, err := trace.ReadFile("../tests/traces/" + name + ".csv.gz")
			if err != nil {
				t.Fatal(err)
			}
			d, err := Make(context.Background(), tr, Options{Device: -1, Capacity: 80 * mem.GiB,
				Quick: true})
			if err != nil {
				t.Fatal(err)
			}
			most, want, load := mostReserved(t, tr)
			l := newLedger(tr)
			runs, err := replayAll(context.Background(), tr, l,
				Options{Device: -1, Capacity: 80 * mem.GiB})
			if err != nil {
				t.Fatal(err)
			}
			w := l.wasteOf(runs[0])
			if w.reserved != most || w.held != want.Reserved || w.load != load ||
				w.cached != want.Reserved-want.Active-want.InactiveSplitBytes ||
				w.holes+w.waiting != want.Active+want.InactiveSplitBytes-load {
				t.Errorf("%+v, and the simulation counts %+v with %v live", w, want, load)
			}
			for _, part := range []string{
				fmt.Sprintf("reserves %v, %v more", most, most-tr.PeakLoad()),
				fmt.Sprintf("it had %v free",
					want.Reserved-load), fmt.Sprintf("%v in gaps between blocks", w.holes),
			} {
				if !strings.Contains(d.NativeWaste, part) {
					t.Errorf("%q does not say %q", d.NativeWaste, part)
				}
			}
		})
	}
}

// mostReserved plays a recording to native, and returns what it reserves at most, and its
// statistics and what is live before the event that takes the last of it.
func mostReserved(t *testing.T, tr *trace.Trace) (most mem.Bytes, want baseline.Stats,
	load mem.Bytes) {
	native := baseline.NewNative(baseline.Options{Capacity: 80 * mem.GiB})
	blocks, sizes, late := map[int64]baseline.Block{}, map[int64]mem.Bytes{}, map[int64]bool{}
	var live mem.Bytes
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range tr.Events {
		before, then := native.Stats(), live
		switch e := &tr.Events[i]; e.Kind {
		case trace.Alloc:
			b, err := native.Malloc(e.Size, e.Stream)
			check(err)
			blocks[e.ID], sizes[e.ID] = b, mem.Round(e.Size)
			live += sizes[e.ID]
		case trace.FreeRequested:
			if late[e.ID] = replay.Deferred(tr.Events, i); late[e.ID] {
				check(native.Defer(blocks[e.ID]))
			}
			check(native.Free(blocks[e.ID]))
			live -= sizes[e.ID]
		case trace.FreeCompleted:
			if late[e.ID] {
				if err := native.Complete(blocks[e.ID]); !errors.Is(err, baseline.ErrUnknownBlock) {
					check(err)
				}
			}
		}
		if reserved := native.Stats().Reserved; reserved > most {
			most, want, load = reserved, before, then
		}
	}
	return most, want, load
}
