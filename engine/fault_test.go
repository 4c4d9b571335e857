package engine

import (
	"fmt"
	"testing"

	"stalloc/internal/mem"
)

// story is a fixed sequence that grows, stitches, shares ends, moves handles
// between streams, waits for fences, makes an arena, evicts and trims.
func story(d *device) error {
	req := uint64(0)
	alloc := func(size mem.Bytes, s mem.StreamID, pool uint64, whole bool) error {
		req++
		return d.step(Event{Kind: EvAlloc, Req: req, Size: size, Stream: s, Pool: pool, Whole: whole})
	}
	free := func(reqs ...uint64) error {
		for _, r := range reqs {
			if _, ok := d.blocks[r]; !ok {
				continue // it was refused
			}
			if err := d.free(r); err != nil {
				return err
			}
		}
		return nil
	}
	steps := []func() error{
		func() error { return alloc(3*mem.MiB, 0, 0, false) },     // 1
		func() error { return alloc(700*mem.KiB, 0, 0, false) },   // 2
		func() error { return alloc(9*mem.MiB/2, 0, 0, false) },   // 3
		func() error { return alloc(5*mem.MiB, 0, 0, false) },     // 4
		func() error { return free(1, 4) },                        //
		func() error { return alloc(15*mem.MiB/2, 0, 0, false) },  // 5: stitched
		func() error { return alloc(6*mem.MiB, 1, 0, false) },     // 6
		func() error { return alloc(6*mem.MiB, 1, 2, false) },     // 7: private
		func() error { return d.maybeRecord(6, 0, 2) },            //
		func() error { return free(6, 3) },                        // 6 waits for two fences
		func() error { return alloc(12*mem.MiB, 0, 0, false) },    // 8: at the limit, waits
		func() error { return alloc(4*mem.MiB, 2, 0, true) },      // 9: an arena
		func() error { return free(5, 8) },                        //
		func() error { return alloc(17*mem.MiB/2, 0, 0, false) },  // 10
		func() error { return d.step(Event{Kind: EvBoundary}) },   //
		func() error { return free(9, 10) },                       //
		func() error { return alloc(20*mem.MiB, 2, 0, true) },     // 11: of others' handles
		func() error { return free(7, 11) },                       //
		func() error { return d.step(Event{Kind: EvTrim}) },       //
		func() error { return alloc(21*mem.MiB/2, 1, 0, false) },  // 12
		func() error { return alloc(100*mem.MiB, 1, 0, false) },   // 13: refused
		func() error { return alloc(2*mem.MiB+512, 1, 0, false) }, // 14
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if err := d.eng.Check(); err != nil {
			return fmt.Errorf("after step %d: %w", i, err)
		}
	}
	return nil
}

func (d *device) maybeRecord(req uint64, streams ...mem.StreamID) error {
	for _, s := range streams {
		if _, ok := d.blocks[req]; ok {
			if err := d.record(req, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func storyDevice() *device {
	cfg := DefaultConfig()
	cfg.Slack, cfg.First, cfg.MaxAliases, cfg.aliasFloor = 0, 0, 1, 0
	d := newDevice(cfg)
	d.capacity = 16
	return d
}

// TestFaultAtEveryCall fails each driver call of the story in turn, alone, and
// with all that follow for a while: the state stays right, every request is
// answered, and all memory comes back.
func TestFaultAtEveryCall(t *testing.T) {
	d := storyDevice()
	if err := story(d); err != nil {
		t.Fatal(err)
	}
	s := d.eng.Stats()
	if s.Adopted == 0 || s.Syncs == 0 || s.Evicted == 0 || s.Refused != 1 || s.Releases == 0 {
		t.Errorf("the story misses what it is for: %+v", s)
	}
	calls := d.calls
	t.Logf("%d driver calls", calls)
	for _, length := range []int{1, 4} {
		for at := 1; at <= calls; at++ {
			d := storyDevice()
			d.failing = func(call int, _ Op) bool { return call >= at && call < at+length }
			if err := story(d); err != nil {
				t.Fatalf("calls %d to %d fail: %v", at, at+length-1, err)
			}
			if err := d.finish(); err != nil {
				t.Fatalf("calls %d to %d fail, at the end: %v", at, at+length-1, err)
			}
		}
	}
}

// TestRetryAfterFault: a request whose driver calls failed once is served the
// second time, by the ladder itself if other memory is there.
func TestRetryAfterFault(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Slack, cfg.First = 0, 0
	d := newDevice(cfg)
	d.failing = func(_ int, op Op) bool { return op.Kind == OpCreate }
	if err := d.step(Event{Kind: EvAlloc, Req: 1, Size: 4 * mem.MiB}); err != nil {
		t.Fatal(err)
	}
	if d.refused.Req != 1 || d.refused.Reason != RefusedDevice || d.refused.Code != 2 {
		t.Fatalf("without memory: %+v", d.refused)
	}
	d.failing = nil
	if err := d.step(Event{Kind: EvAlloc, Req: 2, Size: 4 * mem.MiB}); err != nil || d.blocks[2].Size != 4*mem.MiB {
		t.Fatalf("with memory: %+v, %v", d.blocks[2], err)
	}
	// A map that fails leaves the created handles as free memory.
	d.failing = func(_ int, op Op) bool { return op.Kind == OpMap }
	if err := d.step(Event{Kind: EvAlloc, Req: 3, Size: 6 * mem.MiB}); err != nil {
		t.Fatal(err)
	}
	if s := d.eng.Stats(); d.refused.Req != 3 || s.FreeHandles != 3 || s.Mapped != 2 {
		t.Fatalf("%+v after %+v", s, d.refused)
	}
	d.failing = nil
	before := len(d.handles)
	if err := d.step(Event{Kind: EvAlloc, Req: 4, Size: 6 * mem.MiB}); err != nil || len(d.handles) != before {
		t.Fatalf("%d handles, then %d: %v", before, len(d.handles), err)
	}
}

// TestRunnerOutOfOrder: events the protocol forbids change nothing that matters.
func TestRunnerOutOfOrder(t *testing.T) {
	d := storyDevice()
	d.capacity = 4
	for req, s := range []mem.StreamID{0, 1} {
		if err := d.step(Event{Kind: EvAlloc, Req: uint64(req), Size: 4 * mem.MiB, Stream: s}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.free(1); err != nil {
		t.Fatal(err)
	}
	e := d.eng
	for _, ev := range []Event{
		{Kind: EvResume}, {Kind: EvFailed}, {Kind: EvFailed, Failed: -1}, {Kind: EvFence, Fence: 9},
		{Kind: EvFree, Addr: 1}, {Kind: EvRecord, Addr: e.cfg.Base + 7*512, Stream: 3}, {}, {Kind: 200},
	} {
		if out := e.Step(ev, nil); len(out) != 1 || out[0].Kind != OpUnknown {
			t.Errorf("%+v: %v", ev, out)
		}
	}
	// Stream 1 would lend its handles, but the runner never answers the resume.
	e.limit = 4
	out := e.Step(Event{Kind: EvAlloc, Req: 5, Size: 4 * mem.MiB}, nil)
	if out[len(out)-1].Kind != OpResume {
		t.Fatalf("no wait for stream 1: %v", out)
	}
	out = e.Step(Event{Kind: EvBoundary}, nil)
	if len(out) != 1 || out[0].Kind != OpRefuse || out[0].Req != 5 || out[0].Reason != RefusedOrder {
		t.Errorf("a request left hanging got %v", out)
	}
	if err := e.Check(); err != nil {
		t.Error(err)
	}
}

func TestRefusesSizes(t *testing.T) {
	for _, size := range []mem.Bytes{-1, 3 * mem.TiB, 1<<63 - 1} {
		for _, whole := range []bool{false, true} {
			e := New(DefaultConfig())
			out := e.Step(Event{Kind: EvAlloc, Req: 1, Size: size, Whole: whole}, nil)
			if len(out) != 1 || out[0].Kind != OpRefuse || out[0].Reason != RefusedSize {
				t.Errorf("%d bytes: %v", int64(size), out)
			}
		}
	}
}
