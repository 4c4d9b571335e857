package baseline

import (
	"math/rand/v2"
	"testing"

	"stalloc/internal/mem"
)

// TestCheckNotices: every kind of damage to the state is found. Without this a
// Check that returns nil would pass all the other tests.
func TestCheckNotices(t *testing.T) {
	for name, damage := range map[string]func(g *GMLake){
		"neighbour":        func(g *GMLake) { g.blocks[pick(g, free, false)].next = none },
		"size":             func(g *GMLake) { g.blocks[pick(g, live, false)].size += 512 },
		"state":            func(g *GMLake) { g.blocks[pick(g, free, false)].state = live },
		"free set":         func(g *GMLake) { g.removeFree(pick(g, free, false)) },
		"order of a set":   func(g *GMLake) { l := g.pools[largePool].free[0].leaves[0]; l.e[0], l.e[1] = l.e[1], l.e[0] },
		"allocated":        func(g *GMLake) { g.stats.Allocated += 512 },
		"active":           func(g *GMLake) { g.stats.Active -= 512 },
		"requested":        func(g *GMLake) { g.stats.Requested++ },
		"reserved":         func(g *GMLake) { g.stats.Reserved -= chunk },
		"physical":         func(g *GMLake) { g.stats.Physical += chunk },
		"split bytes":      func(g *GMLake) { g.stats.InactiveSplitBytes++ },
		"peak":             func(g *GMLake) { g.stats.PeakReserved = 0 },
		"segments overlap": func(g *GMLake) { b := &g.blocks[pick(g, idle, true)]; b.addr -= 1 << 21 },
		"waits":            func(g *GMLake) { g.blocks[pick(g, waiting, false)].waits++ },
		"waiting count":    func(g *GMLake) { g.pending.count-- },
		"atom size":        func(g *GMLake) { g.atoms[g.blocks[pickLarge(g)].ext].chunks++ },
		"atom owner":       func(g *GMLake) { g.atoms[g.blocks[pickLarge(g)].ext].owner = none },
		"mapping":          func(g *GMLake) { g.maps[g.stitchs[g.blocks[pick(g, idle, true)].ext].first].atom++ },
		"free chunks":      func(g *GMLake) { g.stitchs[g.blocks[pick(g, idle, true)].ext].free++ },
		"held":             func(g *GMLake) { g.stitchs[g.blocks[pick(g, live, true)].ext].heldBy = none },
		"ready":            func(g *GMLake) { s := &g.stitchs[g.blocks[pick(g, idle, true)].ext]; s.isReady = !s.isReady },
		"virtual":          func(g *GMLake) { g.virtual++ },
	} {
		g := mixedGMLake(t)
		damage(g)
		if g.Check() == nil {
			t.Errorf("%s: the damage was not noticed", name)
		}
	}
	e := NewExpandable(Options{})
	if _, err := e.Malloc(5*mem.MiB, 0); err != nil {
		t.Fatal(err)
	}
	for i := range e.blocks {
		if e.blocks[i].state == unmapped {
			e.removeHole(int32(i))
		}
	}
	if e.Check() == nil {
		t.Error("an unmapped block without a set was not noticed")
	}
	n := NewNative(Options{})
	n.stats.Segments++
	if n.Check() == nil {
		t.Error("a segment too many was not noticed")
	}
}

// mixedGMLake has blocks in every state.
func mixedGMLake(t *testing.T) *GMLake {
	t.Helper()
	g := NewGMLake(Options{Capacity: 4 * mem.GiB, FragLimit: 8 * mem.MiB})
	for seed := uint64(0); ; seed++ {
		r := rand.New(rand.NewPCG(seed, 0))
		var blocks []Block
		for range 200 {
			if r.IntN(5) < 3 {
				b, err := g.Malloc(mem.Bytes(r.IntN(60<<20)+1), 0)
				if err != nil {
					t.Fatal(err)
				}
				blocks = append(blocks, b)
			} else if len(blocks) > 0 {
				i := r.IntN(len(blocks))
				if r.IntN(4) == 0 {
					_ = g.RecordStream(blocks[i], 1)
				}
				if err := g.Free(blocks[i]); err != nil {
					t.Fatal(err)
				}
				blocks = append(blocks[:i], blocks[i+1:]...)
			}
		}
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
		if pick(g, idle, true) != none && pick(g, live, true) != none && pick(g, waiting, false) != none && g.pools[largePool].free[0].count > 1 {
			return g
		}
		g = NewGMLake(g.opt)
	}
}

// pick returns a block in that state, preferably one with both neighbours.
func pick(g *GMLake, s state, stitched bool) int32 {
	found := none
	for i := range g.blocks {
		if b := &g.blocks[i]; b.state == s && b.stitched == stitched {
			if found = int32(i); b.prev != none && b.next != none {
				break
			}
		}
	}
	return found
}

func pickLarge(g *GMLake) int32 {
	for i := range g.blocks {
		if b := &g.blocks[i]; b.state != gone && b.pool == largePool && !b.stitched && g.atoms[b.ext].next != none {
			return int32(i)
		}
	}
	return none
}
