package engine

import (
	"testing"

	"stalloc/internal/mem"
)

// firstDevice has a set-up of eight large blocks and two holes of 8 MiB that are no
// neighbours.
func firstDevice(t *testing.T) *device {
	t.Helper()
	cfg := DefaultConfig()
	cfg.First = 0.25
	d := newDevice(cfg)
	for req := range uint64(8) {
		must(t, d.step(Event{Kind: EvAlloc, Req: req + 1, Size: 8 * mem.MiB}))
	}
	must(t, d.step(Event{Kind: EvBoundary}), d.free(2), d.free(5))
	return d
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// stitches reports whether a request that fits both holes together stitches them.
func stitches(t *testing.T, d *device) bool {
	t.Helper()
	before := d.eng.Stats()
	must(t, d.step(Event{Kind: EvAlloc, Req: 100, Size: 16 * mem.MiB}), d.free(100))
	after := d.eng.Stats()
	return after.Maps-before.Maps > after.Creates-before.Creates
}

// TestFirstStep: until the first step is over, whoever ends it, new memory is taken.
func TestFirstStep(t *testing.T) {
	small := func(d *device, n int) { // requests that need no memory of the driver's
		for range n {
			must(t, d.step(Event{Kind: EvAlloc, Req: 99, Size: mem.KiB}), d.free(99))
		}
	}
	for _, c := range []struct {
		what     string
		do       func(d *device)
		expected bool
	}{
		{"behind the set-up", func(*device) {}, false},
		{"a boundary behind a step", func(d *device) { small(d, 100); must(t, d.step(Event{Kind: EvBoundary})) }, true},
		{"told so", func(d *device) { must(t, d.step(Event{Kind: EvFirst})) }, true},
		{"some requests", func(d *device) { small(d, 1000) }, false},
		{"very many requests", func(d *device) { small(d, firstEvents) }, true},
		{"a device that is nearly full", func(d *device) { d.eng.SetLimit(88 * mem.MiB) }, true},
		{"one that is not", func(d *device) { d.eng.SetLimit(90 * mem.MiB) }, false},
		{"an arena", func(d *device) { must(t, d.step(Event{Kind: EvAlloc, Req: 98, Size: 2 * mem.MiB, Whole: true})) }, true},
	} {
		d := firstDevice(t)
		c.do(d)
		if got := stitches(t, d); got != c.expected {
			t.Errorf("%s: stitches: %t", c.what, got)
		}
	}
}

// TestFirstStepTooLoose: memory that was taken for a load that did not come goes back.
func TestFirstStepTooLoose(t *testing.T) {
	for _, c := range []struct {
		what   string
		grows  mem.Bytes
		arena  bool
		fresh  bool // no stitching
		expect bool
	}{
		{"the load does not grow", 0, false, false, true}, {"it does", 32 * mem.MiB, false, false, false},
		{"there is an arena", 0, true, false, false}, {"nothing is ever stitched", 0, false, true, false},
	} {
		d := firstDevice(t)
		d.eng.cfg.Stitch = !c.fresh
		if stitches(t, d) {
			t.Fatal("stitches in the first step")
		}
		most := d.eng.Reserved()
		for step := range firstJudged {
			for req := range uint64(20) {
				must(t, d.step(Event{Kind: EvAlloc, Req: 200 + req, Size: mem.KiB}), d.free(200+req))
			}
			if step == 1 && c.grows > 0 {
				must(t, d.step(Event{Kind: EvAlloc, Req: 150, Size: c.grows}), d.free(150))
			}
			if step == 1 && c.arena {
				must(t, d.step(Event{Kind: EvAlloc, Req: 150, Size: 2 * mem.MiB, Whole: true}))
			}
			if d.eng.Reserved() < most {
				t.Errorf("%s: memory goes back after step %d", c.what, step)
			}
			must(t, d.step(Event{Kind: EvBoundary}))
		}
		if gave := d.eng.Reserved() < most; gave != c.expect {
			t.Errorf("%s: %v held, then %v", c.what, most, d.eng.Reserved())
		}
	}
}
