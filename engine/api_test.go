package engine

import (
	"errors"
	"testing"

	"stalloc/internal/mem"
)

func TestLookup(t *testing.T) {
	d := newDevice(DefaultConfig())
	for req, ev := range []Event{
		{Size: 1000, Stream: 3},
		{Size: 5 * mem.MiB, Whole: true},
		{Size: 3 * mem.MiB, Pool: 9},
	} {
		ev.Kind, ev.Req = EvAlloc, uint64(req)
		if err := d.step(ev); err != nil {
			t.Fatal(err)
		}
	}
	for req, want := range []Block{
		{Size: 1024, Asked: 1000, Stream: 3},
		{Size: 6 * mem.MiB, Asked: 6 * mem.MiB, Whole: true},
		{Size: 3 * mem.MiB, Asked: 3 * mem.MiB, Pool: 9},
	} {
		want.Addr = d.blocks[uint64(req)].Addr
		if got, ok := d.eng.Lookup(want.Addr); !ok || got != want {
			t.Errorf("request %d: %+v, %t, want %+v", req, got, ok, want)
		}
	}
	addr := d.blocks[0].Addr
	for _, a := range []mem.Addr{0, addr + 1, addr + 512, d.eng.cfg.Base - 512, ^mem.Addr(0)} {
		if got, ok := d.eng.Lookup(a); ok {
			t.Errorf("at %x, where no block starts: %+v", a, got)
		}
	}
	if err := d.record(0, 4); err != nil {
		t.Fatal(err)
	}
	if err := d.free(0); err != nil {
		t.Fatal(err)
	}
	if got, ok := d.eng.Lookup(addr); !ok || !got.Pending {
		t.Errorf("a block that waits for a fence: %+v, %t", got, ok)
	}
	if err := d.pass(0); err != nil {
		t.Fatal(err)
	}
	if got, ok := d.eng.Lookup(addr); ok {
		t.Errorf("a block whose fence has passed: %+v", got)
	}
}

// Blocks may outlive their private pool. What they held is no graph's afterwards: the
// device has room for one of them.
func TestBlocksOutliveTheirPool(t *testing.T) {
	for _, stream := range []mem.StreamID{0, 1} { // of the request that needs the room
		d := newDevice(DefaultConfig())
		d.capacity = 4
		for req := range uint64(4) {
			if err := errors.Join(
				d.step(Event{Kind: EvAlloc, Req: req, Size: 8 * mem.MiB, Pool: req + 1}),
				d.step(Event{Kind: EvTrim, Pool: req + 1}),
				d.free(req),
			); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.step(Event{Kind: EvAlloc, Req: 4, Size: 8 * mem.MiB, Stream: stream}); err != nil {
			t.Fatal(err)
		}
		if _, granted := d.blocks[4]; !granted {
			t.Fatalf("on stream %d: %+v", stream, d.refused)
		}
		if err := errors.Join(d.free(4), d.step(Event{Kind: EvTrim})); err != nil {
			t.Fatal(err)
		}
		if n := d.eng.Stats().Handles; n != 0 {
			t.Errorf("%d handles are left", n)
		}
	}
}

func TestSetLimit(t *testing.T) {
	d := newDevice(DefaultConfig())
	d.eng.SetLimit(5 * mem.MiB) // two handles
	for req, size := range []mem.Bytes{4 * mem.MiB, 2 * mem.MiB} {
		if err := d.step(Event{Kind: EvAlloc, Req: uint64(req), Size: size}); err != nil {
			t.Fatal(err)
		}
	}
	if d.refused.Req != 1 || d.refused.Reason != RefusedLimit || len(d.handles) != 2 {
		t.Errorf("beyond the limit: %+v, %d handles", d.refused, len(d.handles))
	}
	d.eng.SetLimit(0)
	if err := d.step(Event{Kind: EvAlloc, Req: 2, Size: 2 * mem.MiB}); err != nil || d.blocks[2].Size != 2*mem.MiB {
		t.Errorf("without a limit: %+v, %v", d.blocks[2], err)
	}
}

// TestSameEventsSameOps: the engine is a function of its events.
func TestSameEventsSameOps(t *testing.T) {
	a, b := storyDevice(), storyDevice()
	for i, d := range []*device{a, b} {
		var all []Op
		d.failing = func(_ int, op Op) bool { all = append(all, op); return false }
		if err := story(d); err != nil {
			t.Fatal(err)
		}
		d.trail = all
		if i == 1 {
			for j := range all {
				if all[j] != a.trail[j] {
					t.Fatalf("op %d is %v, and was %v", j, all[j], a.trail[j])
				}
			}
			if len(all) != len(a.trail) {
				t.Fatalf("%d ops, and were %d", len(all), len(a.trail))
			}
		}
	}
}

// TestHintsForget: a workload whose sizes never come back does not grow the
// tables for ever.
func TestHintsForget(t *testing.T) {
	e := New(DefaultConfig())
	var ops []Op
	for step := range 60 {
		for i := range 1000 {
			ops = e.Step(Event{Kind: EvAlloc, Size: mem.Bytes(step*1000+i) * 512}, ops[:0])
			ops = e.Step(Event{Kind: EvFree, Addr: ops[len(ops)-1].Addr}, ops[:0])
		}
		ops = e.Step(Event{Kind: EvBoundary}, ops[:0])
	}
	if n := len(e.hints.list); n > 12000 {
		t.Errorf("%d hints are kept of 60000 requests", n)
	}
	for range maxOrdinals + 1000 {
		ops = e.Step(Event{Kind: EvAlloc, Size: 512}, ops[:0])
		ops = e.Step(Event{Kind: EvFree, Addr: ops[len(ops)-1].Addr}, ops[:0])
	}
	if n := len(e.hints.list); n > maxOrdinals+12000 {
		t.Errorf("%d hints without a boundary", n)
	}
}
