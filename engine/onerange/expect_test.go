package onerange

import (
	"testing"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// TestWishFarUp: what a plan of an earlier run wishes far up gets the cells of handles that it needs,
// and nothing below them.
func TestWishFarUp(t *testing.T) {
	d := newDevice(DefaultConfig())
	must := func(ev engine.Event) {
		t.Helper()
		if err := d.step(ev); err != nil {
			t.Fatal(err)
		}
	}
	must(engine.Event{Kind: engine.EvExpect, Stream: 1, Size: 8 * mem.GiB, Handle: 16 * mem.MiB})
	base := d.eng.Extents(1, false)[0].Addr
	held := mem.Bytes(0)
	for i, c := range []struct{ at, size, more mem.Bytes }{
		{6 * mem.GiB, mem.MiB, 16 * mem.MiB},                 // one cell
		{6*mem.GiB + 9*mem.MiB, mem.MiB, 0},                  // the same one
		{6*mem.GiB + 15*mem.MiB, 2 * mem.MiB, 16 * mem.MiB},  // a part of it, and the next
		{6*mem.GiB - 40*mem.MiB, 40 * mem.MiB, 48 * mem.MiB}, // up to it from below
		{mem.GiB, 40 * mem.MiB, 48 * mem.MiB},                // far below
		{mem.GiB + 100*mem.MiB, 8 * mem.MiB, 16 * mem.MiB},   // leaves a void between
		{mem.GiB + 40*mem.MiB, 60 * mem.MiB, 48 * mem.MiB},   // which this fills
		{9 * mem.GiB, mem.MiB, 0},                            // behind what is expected: anywhere
	} {
		must(engine.Event{Kind: engine.EvAlloc, Req: uint64(i + 1), Size: c.size, Stream: 1, Wish: base + mem.Addr(c.at)})
		if b, ok := d.eng.Lookup(base + mem.Addr(c.at)); c.at < 8*mem.GiB && (!ok || b.Size != c.size) {
			t.Errorf("request %d does not lie at %v: %+v", i, c.at, b)
		}
		if now := d.eng.Reserved(); now != held+c.more {
			t.Errorf("request %d: %v more are held, want %v", i, now-held, c.more)
		}
		held = d.eng.Reserved()
		if err := d.eng.Check(); err != nil {
			t.Fatal(err)
		}
	}
}
