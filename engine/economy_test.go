package engine

import (
	"testing"

	"stalloc/internal/mem"
)

// TestEconomize: steps in a row that repeat the one before, and only those, are a reason
// to begin anew, once.
func TestEconomize(t *testing.T) {
	type step struct {
		known, stitched int
		arena           bool
	}
	much, little := step{90, 13, false}, step{90, 12, false}
	fresh, planned := step{10, 60, false}, step{90, 60, true}
	for _, c := range []struct {
		what     string
		steps    []step
		expected int // the step after which the pool begins anew, -1: none
	}{
		{"much in each step", []step{much, much, much, much, much, much, much, much, much}, 3},
		{"much on average", []step{{90, 52, false}, {90, 0, false}, {90, 0, false}, {90, 0, false}}, 3},
		{"a little in each step", []step{little, little, little, little, little, little, little, little}, -1},
		{"much, once it goes on", []step{little, {90, 0, false}, little, little, much, much, much, much}, 7},
		{"new steps", []step{fresh, fresh, fresh, fresh, fresh}, -1},
		{"a new one in between", []step{much, much, much, fresh, much, much, much, much}, 7},
		{"a plan that is lost", []step{planned, planned, planned, planned}, -1},
		{"and once it is gone", []step{much, much, planned, much, much, much, much}, 6},
	} {
		e := New(DefaultConfig())
		e.heaps = append(e.heaps, heap{})
		anew := -1
		for i, s := range c.steps {
			e.stats.Handles, e.economy.stitched = 100, s.stitched
			e.hints.ordinals, e.hints.known = 100, s.known
			e.heaps[1].views[arenaViews] = 0
			if s.arena {
				e.heaps[1].views[arenaViews] = 1
			}
			if e.economize() {
				if anew >= 0 {
					t.Errorf("%s: begins anew after step %d and once more after step %d", c.what, anew, i)
				}
				anew = i
			}
		}
		if anew != c.expected || (e.slack == e.cfg.Economy) != (anew >= 0) {
			t.Errorf("%s: begins anew after step %d, expected %d; slack %v", c.what, anew, c.expected, e.slack)
		}
	}
}

// TestWishesOfStepsThatDiffer: sizes that follow the data have no places to go back to.
func TestWishesOfStepsThatDiffer(t *testing.T) {
	d := newDevice(DefaultConfig())
	req := uint64(0)
	train := func(more mem.Bytes) {
		first := req + 1
		for i := range 30 {
			req++
			if err := d.step(Event{Kind: EvAlloc, Req: req, Size: mem.Bytes(i+3)*mem.MiB + more}); err != nil {
				t.Fatal(err)
			}
		}
		for r := first; r <= req; r++ {
			if err := d.free(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.step(Event{Kind: EvBoundary}); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct {
		more   mem.Bytes
		follow unit
		sticky bool // requests of this step went back
	}{
		{0, followLarge, false}, {0, followAll, false}, {0, followAll, true},
		{700 << 10, followLarge, true}, {900 << 10, followLarge, false}, {900 << 10, followAll, false}, {900 << 10, followAll, true},
	} {
		before := d.eng.Stats().Sticky
		train(c.more)
		if d.eng.hints.follow != c.follow {
			t.Errorf("step %d: wishes are followed from %d units on, expected %d", i, d.eng.hints.follow, c.follow)
		}
		if i != 3 && (d.eng.Stats().Sticky > before) != c.sticky {
			t.Errorf("step %d: %d requests went back to their places", i, d.eng.Stats().Sticky-before)
		}
	}
}

// TestSlackKeepsTheBound: room that only saves maps is not taken beyond what a request
// may take.
func TestSlackKeepsTheBound(t *testing.T) {
	for most, expected := range map[int]bool{0: true, 513: true, 512: false} {
		e := New(DefaultConfig())
		e.stats.Handles, e.stats.PeakHeld, e.act.most = 512, mem.GiB, most
		if e.withinSlack(1) != expected {
			t.Errorf("512 handles held, %d allowed: within slack is %t", most, !expected)
		}
	}
}
