package gmlake

import (
	"fmt"
	"testing"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// story is a fixed sequence that grows, cuts, stitches, reuses a stitched block in
// part, dooms it, waits for fences, and trims.
func story(d *device) error {
	req := uint64(0)
	alloc := func(size mem.Bytes, s mem.StreamID, pool uint64) func() error {
		return func() error {
			req++
			return d.step(engine.Event{Kind: engine.EvAlloc, Req: req, Asked: size, Stream: s,
				Pool: pool})
		}
	}
	free := func(reqs ...uint64) func() error {
		return func() error {
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
	}
	trim := func(pool uint64) func() error {
		return func() error { return d.step(engine.Event{Kind: engine.EvTrim, Pool: pool}) }
	}
	steps := []func() error{
		alloc(12*mem.MiB, 0, 0),  // 1
		alloc(700*mem.KiB, 0, 0), // 2
		alloc(12*mem.MiB, 0, 0),  // 3
		free(1, 3),               //
		alloc(20*mem.MiB, 0, 0),  // 4: stitched
		free(4),                  //
		alloc(14*mem.MiB, 0, 0),  // 5: the same sBlock, in part
		alloc(4*mem.MiB, 0, 0),   // 6: out of its last chunks
		alloc(10*mem.MiB, 0, 2),  // 7: private
		func() error {
			if _, ok := d.blocks[5]; ok {
				return d.record(5, 2)
			}
			return nil
		},
		free(5),                 // waits for a fence
		alloc(24*mem.MiB, 1, 0), // 8: at the limit: waits, flushes
		free(6, 7),              //
		func() error { return d.step(engine.Event{Kind: engine.EvBoundary}) },
		free(8),                 //
		alloc(30*mem.MiB, 1, 0), // 9: what is there goes first
		trim(0),
		alloc(100*mem.MiB, 1, 0), // 10: refused
		trim(2),
		free(2, 9),
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if err := d.pool.Check(); err != nil {
			return fmt.Errorf("after step %d: %w", i, err)
		}
	}
	return nil
}

func storyDevice() *device {
	cfg := DefaultConfig()
	cfg.FragLimit = 0
	d := newDevice(cfg)
	d.capacity = 24
	return d
}

// TestFaultAtEveryCall fails each driver call of the story in turn, alone, and
// with those that follow: the state stays right, every request is answered, and
// all memory comes back.
func TestFaultAtEveryCall(t *testing.T) {
	d := storyDevice()
	if err := story(d); err != nil {
		t.Fatal(err)
	}
	s := d.pool.Stats()
	if s.Stitches == 0 || s.Syncs == 0 || s.Evicted == 0 || s.Refused != 1 || s.Releases == 0 {
		t.Errorf("the story misses what it is for: %+v", s)
	}
	calls := d.calls
	t.Logf("%d driver calls, %+v", calls, s)
	for _, length := range []int{1, 4, 40} {
		for at := 1; at <= calls; at++ {
			d := storyDevice()
			d.failing = func(call int, _ engine.Op) bool { return call >= at && call < at+length }
			if err := story(d); err != nil {
				t.Fatalf("calls %d to %d fail: %v", at, at+length-1, err)
			}
			if err := d.finish(); err != nil {
				t.Fatalf("calls %d to %d fail, at the end: %v", at, at+length-1, err)
			}
		}
	}
}

// TestCheckBetween: the books are recounted between events, not while a batch that has failed is
// being undone.
func TestCheckBetween(t *testing.T) {
	d := storyDevice()
	d.pool.clock = checkEvery - 1 // the answer to the first batch is due for a check
	d.failing = func(_ int, op engine.Op) bool { return op.Kind == engine.OpAccess }
	alloc := engine.Event{Kind: engine.EvAlloc, Req: 1, Asked: 4 * mem.MiB}
	if err := d.step(alloc); err != nil || d.pool.Stats().Refused != 1 {
		t.Errorf("%+v, %v", d.pool.Stats(), err)
	}
	d.failing = nil
	if err := d.finish(); err != nil {
		t.Error(err)
	}
}
