package onerange

import (
	"testing"

	"stalloc/engine"
	"stalloc/engine/index"
	"stalloc/internal/mem"
)

// builder is an engine whose every call succeeds, and what was made for it.
type builder struct {
	t    *testing.T
	idx  *index.Model
	eng  *Engine
	req  uint64
	made []mem.Bytes // for the last request, by handle
	ops  []engine.Op
}

func newBuilder(t *testing.T) *builder {
	idx := index.NewModel()
	return &builder{t: t, idx: idx, eng: New(DefaultConfig(), idx)}
}

func (b *builder) alloc(size mem.Bytes, id mem.StreamID) mem.Addr {
	b.t.Helper()
	return b.allocIn(size, id, 0)
}

func (b *builder) allocIn(size mem.Bytes, id mem.StreamID, pool uint64) mem.Addr {
	b.t.Helper()
	b.req++
	b.made = b.made[:0]
	last := b.play(engine.Event{Kind: engine.EvAlloc, Req: b.req, Asked: size, Stream: id,
		Pool: pool})
	if last.Kind != engine.OpGrant {
		b.t.Fatalf("%v: %+v", size, last)
	}
	return last.Addr
}

// play has an event and all that it waits for done, and returns the last operation.
func (b *builder) play(ev engine.Event) (last engine.Op) {
	for {
		b.ops = b.eng.Step(ev, b.ops[:0])
		for _, last = range b.ops {
			if last.Kind == engine.OpCreate {
				b.made = append(b.made, last.Size)
			}
		}
		if len(b.ops) == 0 || last.Kind != engine.OpResume {
			return last
		}
		ev = engine.Event{Kind: engine.EvResume, Req: last.Req}
	}
}

// TestHandlesFollowTheLoad: from the first request on handles are powers of two, at most a 384th of
// what is live with the request, and half of that or more but for the rest at the end; up to 64
// MiB.
func TestHandlesFollowTheLoad(t *testing.T) {
	b := newBuilder(t)
	const block = 300 * mem.MiB
	for load := block; load <= 60*mem.GiB; load += block {
		b.alloc(block, 0)
		most := max(mem.HandleSize, min(64*mem.MiB, load/384))
		for _, size := range b.made {
			if size > most || size&(size-1) != 0 {
				t.Fatalf("at %v a handle of %v", load, size)
			}
		}
		if size := b.made[0]; 2*size <= most {
			t.Fatalf("at %v handles of %v, at most %v are meant", load, size, most)
		}
	}
	if size := b.made[0]; size != 64*mem.MiB {
		t.Errorf("at the end handles of %v", size)
	}
	b.alloc(100*mem.MiB, 1)
	if size := b.made[0]; size != mem.HandleSize {
		t.Errorf("handles of %v for a stream of 100 MiB", size)
	}
	b.alloc(mem.KiB, 0)
	if len(b.made) != 1 || b.made[0] != mem.HandleSize {
		t.Errorf("handles of %v for small requests", b.made)
	}
}

// TestHandlesOfRegions: what a region lends serves everything else, so it grows by whole handles,
// whose size follows all that is live. None is larger than the region.
func TestHandlesOfRegions(t *testing.T) {
	b := newBuilder(t)
	for range 120 {
		b.alloc(128*mem.MiB, 0)
	}
	b.allocIn(44*mem.MiB, 0, engine.FirstRegion)
	if len(b.made) != 2 || b.made[0] != 32*mem.MiB || b.made[1] != 32*mem.MiB {
		t.Errorf("beside 15 GiB a region begins with handles of %v", b.made)
	}
	b.allocIn(10*mem.MiB, 0, engine.FirstRegion+1)
	if len(b.made) != 2 || b.made[0] != 8*mem.MiB || b.made[1] != 8*mem.MiB {
		t.Errorf("a small region begins with handles of %v", b.made)
	}
	b.allocIn(44*mem.MiB, 0, 3)
	if len(b.made) < 2 || b.made[0] != mem.HandleSize {
		t.Errorf("another private pool begins with handles of %v", b.made)
	}
}

// TestHandlesOfSmallBlocks: where blocks are small, a handle is at most as large as three of them,
// whatever is asked for at last.
func TestHandlesOfSmallBlocks(t *testing.T) {
	for _, c := range []struct{ block, want mem.Bytes }{
		{256 * mem.KiB, 2 * mem.MiB}, {3 * mem.MiB, 8 * mem.MiB}, {12 * mem.MiB, 16 * mem.MiB},
	} {
		b := newBuilder(t)
		for load := mem.Bytes(0); load < 7*mem.GiB; load += c.block {
			b.alloc(c.block, 0)
		}
		b.alloc(600*mem.MiB, 0)
		if got := b.made[0]; got != c.want {
			t.Errorf("blocks of %v: handles of %v, expected %v", c.block, got, c.want)
		}
	}
}

// TestHandlesBehindTrims: behind empty_cache the load counts anew; a program that calls it step
// after step has memory made in few handles, up to what it held before.
func TestHandlesBehindTrims(t *testing.T) {
	const block = 101 * mem.MiB
	for _, c := range []struct {
		name         string
		times, apart int // trims in a step, and steps between two
		more         int // steps behind the last
		limit        mem.Bytes
		handle, sum  mem.Bytes
	}{
		{"every third step", 1, 3, 0, 0, 2 * mem.MiB, 102 * mem.MiB},
		{"every other step", 1, 2, 0, 0, 64 * mem.MiB, 128 * mem.MiB},
		{"each step", 1, 1, 0, 0, 64 * mem.MiB, 128 * mem.MiB},
		{"each step, and no longer", 1, 1, 2, 0, 2 * mem.MiB, 102 * mem.MiB},
		{"each step, and memory is left", 1, 1, 0, 26 * mem.GiB, 64 * mem.MiB, 128 * mem.MiB},
		{"each step, and memory is short", 1, 1, 0, 25 * mem.GiB, 2 * mem.MiB, 102 * mem.MiB},
		{"in one step", 5, 0, 0, 0, 2 * mem.MiB, 102 * mem.MiB},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder(t)
			b.eng.SetLimit(c.limit)
			for range 4 {
				for range c.times {
					for _, at := range []mem.Addr{b.alloc(24*mem.GiB, 0), b.alloc(block, 0)} {
						b.play(engine.Event{Kind: engine.EvFree, Addr: at})
					}
					b.play(engine.Event{Kind: engine.EvTrim})
				}
				for range c.apart {
					b.idx.EndStep()
				}
			}
			for range c.more {
				b.idx.EndStep()
			}
			b.alloc(block, 0)
			var sum mem.Bytes
			for _, size := range b.made {
				sum += size
			}
			if b.made[0] != c.handle || sum != c.sum {
				t.Errorf("handles of %v, %v in all, expected %v and %v", b.made[0], sum, c.handle,
					c.sum)
			}
		})
	}
}

// TestGrowth: memory is made for the shortfall, in eighths of a handle; what was held before, in
// whole ones.
func TestGrowth(t *testing.T) {
	for _, c := range []struct{ missing, size, before, most, want mem.Bytes }{
		{1, 2, 0, 1000, 2},
		{3, 2, 0, 1000, 4},
		{9, 16, 0, 1000, 10},  // an eighth is 2 MiB
		{61, 64, 0, 1000, 64}, // and 8 here
		{65, 64, 0, 1000, 72},
		{65, 64, 128, 1000, 128}, // held before
		{65, 64, 127, 1000, 72},
		{65, 64, 128, 127, 72},
		{65, 64, 0, 71, 66}, // there is no room for that
		{65, 64, 0, 60, 66}, // nor for this, which the caller sees
	} {
		n := func(x mem.Bytes) unit { return unitsOf(x * mem.MiB) }
		if got := growth(n(c.missing), n(c.size), unit(DefaultConfig().GrowPart), n(c.before),
			n(c.most)); got != n(c.want) {
			t.Errorf("%d MiB for %d in handles of %d, %d before, at most %d: expected %d",
				bytesOf(got)/mem.MiB, c.missing, c.size, c.before, c.most, c.want)
		}
	}
	b := newBuilder(t)
	b.alloc(24*mem.GiB, 0)
	b.alloc(101*mem.MiB, 0)
	if got := b.made; len(got) != 3 || got[0] != 64*mem.MiB || got[1] != 32*mem.MiB ||
		got[2] != 8*mem.MiB {
		t.Errorf("for 101 MiB handles of %v", got)
	}
}

// TestGrowPart: the part of a handle that memory is made in is the configuration's.
func TestGrowPart(t *testing.T) {
	for part, want := range map[unit]unit{1: 32, 2: 16, 4: 8, 5: 7, 8: 8, 13: 6, 64: 6} {
		got := growth(6*pageUnits, 32*pageUnits, part, 0, 1<<40)
		if got != want*pageUnits {
			t.Errorf("6 pages in handles of 32, in %d parts: %d pages, expected %d", part,
				got/pageUnits, want)
		}
	}
}
