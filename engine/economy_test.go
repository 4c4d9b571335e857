package engine

import (
	"slices"
	"testing"

	"stalloc/internal/mem"
)

// TestEconomize: what is stitched in a step unlike the last, or beside
// an arena, is no reason.
func TestEconomize(t *testing.T) {
	for _, c := range []struct {
		what            string
		known, stitched int
		arena, expected bool
	}{
		{"a step that repeats the last and stitches most", 90, 60, false, true},
		{"a step that is new", 10, 60, false, false},
		{"a step that stitches a little", 90, 40, false, false},
		{"a plan has been lost", 90, 60, true, false},
	} {
		e := New(DefaultConfig())
		e.stats.Handles, e.economy.stitched = 100, c.stitched
		e.hints.ordinals, e.hints.known = 100, c.known
		if c.arena {
			e.heaps = append(e.heaps, heap{})
			e.heaps[1].views[arenaViews] = 1
		}
		if got := e.economize(); got != c.expected || (e.slack == e.cfg.Economy[0]) != c.expected {
			t.Errorf("%s: begins anew: %t, slack %v", c.what, got, e.slack)
		}
		if e.economize() {
			t.Errorf("%s: begins anew twice", c.what)
		}
	}
}

// TestEconomizeAgain: a pool that has begun anew has some steps to settle, and if it
// then goes on stitching it begins anew once more, and not again.
func TestEconomizeAgain(t *testing.T) {
	for _, c := range []struct {
		stitched int // in each step after the first
		expected []int
	}{{1, []int{0}}, {2, []int{0, 8}}, {99, []int{0, 8}}} {
		e := New(DefaultConfig())
		var anew []int
		for step := range 40 {
			e.stats.Handles, e.economy.stitched = 100, c.stitched
			e.hints.ordinals, e.hints.known = 100, 100
			if step == 0 {
				e.economy.stitched = 51
			}
			if e.economize() {
				anew = append(anew, step)
			}
		}
		if !slices.Equal(anew, c.expected) || e.slack != e.cfg.Economy[len(anew)-1] {
			t.Errorf("%d of 100 handles are stitched in each step: begins anew in %v, expected %v; slack %v", c.stitched, anew, c.expected, e.slack)
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
