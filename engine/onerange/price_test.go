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
	eng  *Engine
	req  uint64
	made []mem.Bytes // for the last request, by handle
	ops  []engine.Op
}

func (b *builder) alloc(size mem.Bytes, id mem.StreamID) {
	b.t.Helper()
	b.req++
	b.made = b.made[:0]
	for ev := (engine.Event{Kind: engine.EvAlloc, Req: b.req, Size: size, Stream: id}); ; {
		b.ops = b.eng.Step(ev, b.ops[:0])
		for _, op := range b.ops {
			if op.Kind == engine.OpCreate {
				b.made = append(b.made, op.Size)
			}
		}
		switch last := b.ops[len(b.ops)-1]; last.Kind {
		case engine.OpGrant:
			return
		case engine.OpResume:
			ev = engine.Event{Kind: engine.EvResume, Req: last.Req}
		default:
			b.t.Fatalf("%v: %+v", size, last)
		}
	}
}

// TestHandlesFollowTheLoad: from the first request on handles are powers of two, at most a 384th of what is
// live with the request, and half of that or more but for the rest at the end; up to 64 MiB.
func TestHandlesFollowTheLoad(t *testing.T) {
	b := &builder{t: t, eng: New(DefaultConfig(), index.NewModel())}
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
	b.eng.Lasting(1)
	b.alloc(100*mem.MiB, 1)
	if size := b.made[0]; size != 64*mem.MiB {
		t.Errorf("handles of %v for a stream that may lend them", size)
	}
	b.alloc(mem.KiB, 0)
	if len(b.made) != 1 || b.made[0] != mem.HandleSize {
		t.Errorf("handles of %v for small requests", b.made)
	}
}

// TestGrowth: memory is made for what lacks, in eighths of a handle.
func TestGrowth(t *testing.T) {
	for _, c := range []struct{ lack, size, most, want mem.Bytes }{
		{1, 2, 1000, 2},
		{3, 2, 1000, 4},
		{9, 16, 1000, 10},  // an eighth is 2 MiB
		{61, 64, 1000, 64}, // and 8 here
		{65, 64, 1000, 72},
		{65, 64, 71, 66}, // there is no room for that
		{65, 64, 60, 66}, // nor for this, which the caller sees
	} {
		n := func(x mem.Bytes) unit { return unitsOf(x * mem.MiB) }
		if got := growth(n(c.lack), n(c.size), n(c.most)); got != n(c.want) {
			t.Errorf("%d MiB for %d in handles of %d, at most %d: expected %d", bytesOf(got)/mem.MiB, c.lack, c.size, c.most, c.want)
		}
	}
	b := &builder{t: t, eng: New(DefaultConfig(), index.NewModel())}
	b.alloc(24*mem.GiB, 0)
	b.alloc(101*mem.MiB, 0)
	if got := b.made; len(got) != 3 || got[0] != 64*mem.MiB || got[1] != 32*mem.MiB || got[2] != 8*mem.MiB {
		t.Errorf("for 101 MiB handles of %v", got)
	}
}
