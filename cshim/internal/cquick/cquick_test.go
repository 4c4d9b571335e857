package cquick

import (
	"slices"
	"testing"

	"stalloc/engine/onerange"
	"stalloc/internal/mem"
)

// TestLockStep: what C answers where it serves from a cursor is what Go answers that looks
// every planned offset up in the range, whatever happens between; and no two live blocks overlap.
func TestLockStep(t *testing.T) {
	for _, c := range []struct {
		name   string
		x      noise
		move   int
		slack  uint64
		served float64 // by C, of the requests, at least
		cfg    func(*onerange.Config)
		fails  int
	}{
		{"regular", noise{regular: true}, 0, 0, 0.6, nil, 0},
		{"regular, looked at", noise{regular: true, goes: 2}, 0, 0, 0.6, nil, 0},
		{"regular, with odd requests", noise{regular: true, insert: 1}, 0, 0, 0.6, nil, 0},
		{"exact", noise{}, 0, 0, 0.6, nil, 0},
		{"exact, looked at", noise{goes: 20}, 0, 0, 0.6, nil, 0},
		{"planned", noise{goes: 3}, 300, 0, 0.5, nil, 0},
		{"late frees", noise{record: 60, pass: 200, goes: 3}, 20, 0, 0.4, nil, 0},
		{"misses", noise{skip: 10, insert: 10, keep: 10, goes: 3}, 20, 0, 0.4, nil, 0},
		{"jumps", noise{skip: 3, jump: 3, insert: 3, goes: 3}, 0, 0, 0.3, nil, 0},
		{"cut short", noise{jump: 6}, 0, 0, 0.3, nil, 0},
		{"asked often", noise{record: 20, pass: 100, insert: 20}, 20, 5, 0.2, nil, 0},
		{"swapped", noise{swap: 10}, 20, 0, 0.4, nil, 0},
		{"swapped at every turn", noise{swap: 100, keep: 20, goes: 3}, 200, 0, 0.3, nil, 0},
		{"all at once", noise{swap: 10, skip: 10, insert: 10, keep: 20, record: 20, pass: 100,
			goes: 5, jump: 1}, 100, 0, 0.2, nil, 0},
		{"trimmed", noise{swap: 10, insert: 10, goes: 5, trim: true}, 20, 0, 0.2, nil, 0},
		{"large handles", noise{swap: 10, record: 20, pass: 100, goes: 5}, 20, 0, 0.2,
			func(c *onerange.Config) { c.HandlePart = 8 }, 0},
		{"limit", noise{insert: 20, keep: 20, record: 20, pass: 100, goes: 5}, 20, 0, 0.2,
			func(c *onerange.Config) { c.Limit = 40 * mem.MiB }, 0},
		{"faults", noise{insert: 20, keep: 20, record: 20, pass: 100, goes: 5, trim: true}, 20, 0,
			0.2, nil, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			var served, hits [2]int
			swaps := 0
			for seed := range uint64(12) {
				change := c.cfg
				if change == nil {
					change = func(*onerange.Config) {}
				}
				x := newTwins(seed, change)
				defer x.device.Close()
				x.slack, x.failing = c.slack, c.fails
				if err := x.life(14, 20<<(seed%5), c.x, c.move); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				served[0] += x.served[0]
				served[1] += x.served[1]
				hits[1] += x.hits
				swaps += x.swaps
			}
			share := float64(served[1]) / float64(served[0]+served[1])
			t.Logf("C served %d of %d requests (%.0f %%), %d at planned offsets, %d swaps",
				served[1], served[0]+served[1], 100*share, hits[1], swaps)
			if share < c.served {
				t.Errorf("C served only %.0f %% of the requests, want %.0f %%", 100*share,
					100*c.served)
			}
		})
	}
}

// TestDeferredInOrder: deferred frees are performed in order, which is part of what a step is.
func TestDeferredInOrder(t *testing.T) {
	x := newTwins(1, func(*onerange.Config) {})
	defer x.device.Close()
	var at []mem.Addr
	for range 5 {
		b, err := x.alloc(0, 2*mem.MiB)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, b.addr)
	}
	x.device.Events()
	x.device.Defer(at...)
	var freed []mem.Addr
	for _, e := range x.device.Events() {
		freed = append(freed, mem.Addr(e.Addr))
	}
	if !slices.Equal(freed, at) {
		t.Errorf("freed %x, deferred %x", freed, at)
	}
}

// A caller may name the wrong device for a block, and that one's addresses may lie right below it:
// so it is asked for a block before it has one, and before its index has room for any.
func TestFreeBeforeTheFirstRequest(t *testing.T) {
	d := New(1<<40, mem.MiB)
	defer d.Close()
	d.Allow(1 << 40)
	if d.Free(1<<40 + 32<<30) {
		t.Error("freed a block that there never was")
	}
}
