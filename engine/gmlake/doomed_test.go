package gmlake

import (
	"testing"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// TestDoomed: a flush while a stitched block is used in part returns the segment
// under its other chunks. Their handles stay until the block is gone, and the block
// never serves again.
func TestDoomed(t *testing.T) {
	for _, retire := range []engine.EventKind{engine.EvBoundary, engine.EvTrim} {
		cfg := DefaultConfig()
		cfg.FragLimit = 0
		d := newDevice(cfg)
		req := uint64(0)
		do := func(ev engine.Event, handles, mapped, doomed int) uint64 {
			t.Helper()
			req++
			ev.Req = req
			if err := d.step(ev); err != nil {
				t.Fatal(err)
			}
			if err := d.pool.Check(); err != nil {
				t.Fatal(err)
			}
			if s := d.pool.Stats(); s.Handles != handles || s.Mapped != mapped ||
				d.doomed != doomed {
				t.Fatalf("%d doomed, want %d; %d handles, want %d; %d mapped, want %d", d.doomed,
					doomed, s.Handles, handles, s.Mapped, mapped)
			}
			return req
		}
		free := func(reqs ...uint64) {
			t.Helper()
			for _, r := range reqs {
				if err := d.free(r); err != nil {
					t.Fatal(err)
				}
			}
		}
		a := do(engine.Event{Kind: engine.EvAlloc, Asked: 20 * mem.MiB}, 10, 10, 0)
		b := do(engine.Event{Kind: engine.EvAlloc, Asked: 12 * mem.MiB}, 16, 16, 0)
		c := do(engine.Event{Kind: engine.EvAlloc, Asked: 10 * mem.MiB}, 21, 21, 0)
		free(a, b, c)
		// all three
		free(do(engine.Event{Kind: engine.EvAlloc, Asked: 42 * mem.MiB}, 21, 42, 0))
		// over a and b
		live := do(engine.Event{Kind: engine.EvAlloc, Asked: 32 * mem.MiB}, 21, 42, 0)
		// c goes
		do(engine.Event{Kind: engine.EvTrim}, 21, 37, 1)
		// not out of c
		other := do(engine.Event{Kind: engine.EvAlloc, Asked: 42 * mem.MiB}, 21+21, 37+21, 1)
		free(live, other)
		if retire == engine.EvBoundary {
			do(engine.Event{Kind: retire}, 16+21, 16+21, 1)
		}
		do(engine.Event{Kind: engine.EvTrim}, 0, 0, 1)
	}
}

// TestUnknown: events that name what is not there change nothing.
func TestUnknown(t *testing.T) {
	cfg := DefaultConfig()
	p := New(cfg)
	for _, ev := range []engine.Event{
		{Kind: engine.EvFence, Fence: 9}, {Kind: engine.EvFree, Addr: 1},
		{Kind: engine.EvUseStream, Addr: cfg.Base + 512, Stream: 3}, {}, {Kind: 200},
	} {
		if out := p.Step(ev, nil); len(out) != 1 || out[0].Kind != engine.OpUnknown {
			t.Errorf("%+v: %v", ev, out)
		}
	}
}

// TestRunnerOutOfOrder: a batch is answered once, before any other event.
func TestRunnerOutOfOrder(t *testing.T) {
	panics := func(p *Pool, ev engine.Event) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("event %d was taken", ev.Kind)
			}
		}()
		p.Step(ev, nil)
	}
	panics(New(DefaultConfig()), engine.Event{Kind: engine.EvResume})
	panics(New(DefaultConfig()), engine.Event{Kind: engine.EvFailed})
	p := New(DefaultConfig())
	p.Step(engine.Event{Kind: engine.EvAlloc, Req: 5, Asked: 4 * mem.MiB}, nil)
	panics(p, engine.Event{Kind: engine.EvBoundary})
}

func TestRefusesSizes(t *testing.T) {
	for _, size := range []mem.Bytes{-1, 3 * mem.TiB, 1<<63 - 1} {
		out := New(DefaultConfig()).Step(engine.Event{Kind: engine.EvAlloc, Req: 1, Asked: size},
			nil)
		if len(out) != 1 || out[0].Kind != engine.OpRefuse || out[0].Reason != engine.RefusedSize {
			t.Errorf("%d bytes: %v", int64(size), out)
		}
	}
}

// TestReleasedInUse releases a private pool while blocks of it are alive: what they leave goes
// with what the default pool has, unless the pool is used again.
func TestReleasedInUse(t *testing.T) {
	for _, again := range []bool{false, true} {
		d := newDevice(DefaultConfig())
		do := func(ev engine.Event) {
			t.Helper()
			if err := d.step(ev); err != nil {
				t.Fatal(err)
			}
		}
		do(engine.Event{Kind: engine.EvAlloc, Req: 1, Asked: 12 * mem.MiB, Pool: 2})
		do(engine.Event{Kind: engine.EvTrim, Pool: 2})
		if again {
			do(engine.Event{Kind: engine.EvAlloc, Req: 2, Asked: 12 * mem.MiB, Pool: 2})
		}
		if err := d.free(1); err != nil {
			t.Fatal(err)
		}
		do(engine.Event{Kind: engine.EvTrim})
		if s := d.pool.Stats(); (s.Handles == 0) == again {
			t.Errorf("used again %t: %d handles are left", again, s.Handles)
		}
		if err := d.finish(); err != nil {
			t.Error(err)
		}
	}
}
