package stream

import (
	"math/rand/v2"
	"slices"
	"testing"

	"stalloc/internal/mem"
)

// naiveIdle tells of every grain whether a slot touches it between two leaves.
func naiveIdle(slots []Slot, order []int32, arena int, from, to uint32) []bool {
	idle := make([]bool, arena)
	for i := range idle {
		idle[i] = true
	}
	first, last := int(from/leafEntries)*leafEntries, (int(to/leafEntries)+1)*leafEntries
	for i := range slots {
		alloc := slices.Index(order, int32(i))
		free := slices.Index(order, ^int32(i))
		if alloc < last && free >= first {
			lo := int(slots[i].Offset) / int(mem.Grain)
			for g := lo; g < lo+int(slots[i].Size/mem.Grain); g++ {
				idle[g] = false
			}
		}
	}
	return idle
}

func TestHolesAgainstDefinition(t *testing.T) {
	for seed := uint64(0); seed < 30; seed++ {
		r := rand.New(rand.NewPCG(seed, 4))
		slots, order := program(r, 20+int(seed)*8)
		layout, err := Lay(slots, order)
		if err != nil {
			t.Fatal(err)
		}
		h := layout.holes[0]
		arena := int(grains(uint64(h.arena)))
		for range 20 {
			from := uint32(r.IntN(len(order)))
			to := from + uint32(r.IntN(len(order)-int(from)))
			want := naiveIdle(slots, order, arena, from, to)
			for _, g := range h.idle(nil, from, to, thinnest) {
				for at := g.lo; at < g.hi; at++ {
					if !want[at] {
						t.Fatalf("seed %d: grain %d is in %v, idle from %d to %d, and a slot needs it", seed, at, g, from, to)
					}
					want[at] = false
				}
			}
			for at, run := 0, 0; at < arena; at++ {
				if run++; !want[at] {
					run = 0
				}
				if run >= 2*thinnest {
					t.Fatalf("seed %d: grains up to %d are idle from %d to %d and were not found", seed, at, from, to)
				}
			}
		}
	}
}

func TestIdleUntilIsNoLongerThanIdle(t *testing.T) {
	for seed := uint64(0); seed < 30; seed++ {
		r := rand.New(rand.NewPCG(seed, 6))
		slots, order := program(r, 150)
		layout, err := Lay(slots, order)
		if err != nil {
			t.Fatal(err)
		}
		tape := New(layout, base)
		arena := grains(uint64(layout.holes[0].arena))
		for range 50 {
			lo := r.Uint32N(arena)
			g := gap{lo, lo + 1 + r.Uint32N(min(arena-lo, 4096))}
			from := r.Uint32N(uint32(len(order)))
			want := from
			for want < uint32(len(order)) {
				e := &tape.Entries[want]
				if e.Size != 0 && grains(e.offset()) < g.hi && g.lo < grains(e.offset()+uint64(slots[e.Slot].Size)) {
					break
				}
				want++
			}
			if got := tape.meeting(g, from); got != want {
				t.Fatalf("seed %d: %v meets entry %d from %d on, found %d", seed, g, want, from, got)
			}
		}
	}
}

func TestLivesAgainstDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	var l lives
	l.grow(50)
	var order []uint32 // nodes by allocation
	for range 5000 {
		if len(order) < 3 || r.IntN(2) == 0 && len(order) < 80 {
			slot := None
			if r.IntN(3) > 0 {
				slot = r.Uint32N(50)
			}
			node := l.push(slot)
			if slices.Contains(order, node) {
				t.Fatalf("node %d was given twice", node)
			}
			order = append(order, node)
			continue
		}
		i := r.IntN(len(order))
		if got, want := l.depth(order[i]), min(len(order)-1-i, maxDepth); got != want {
			t.Fatalf("depth %d, want %d", got, want)
		}
		l.drop(order[i])
		order = slices.Delete(order, i, i+1)
	}
}

func BenchmarkHolesIdle(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 4))
	slots, order := program(r, 4000)
	layout, err := Lay(slots, order)
	if err != nil {
		b.Fatal(err)
	}
	var out gaps
	for i := uint32(0); b.Loop(); i++ {
		from := i % uint32(len(order)/2)
		out = layout.holes[0].idle(out[:0], from, from+uint32(len(order)/4), thinnest)
	}
}
