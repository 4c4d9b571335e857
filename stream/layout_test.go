package stream

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"stalloc/internal/mem"
)

// scattered is a step that keeps half of its n blocks and then frees them in any order, so
// that what is idle lies in as many pieces as it can.
func scattered(n int) (slots []Slot, order []int32) {
	r := rand.New(rand.NewPCG(1, 2))
	top := mem.Offset(0)
	for i := range int32(n / 2) {
		slots = append(slots, Slot{Offset: top, Size: mem.Bytes(1+r.IntN(64)) * 4 * mem.KiB})
		top += offset(slots[i].Size)
		order = append(order, i)
	}
	for _, i := range r.Perm(n / 2) {
		slots = append(slots, Slot{Offset: top, Size: 4 * mem.KiB})
		last := int32(len(slots) - 1)
		order = append(order, last, ^last, ^int32(i))
	}
	return slots, order
}

// TestLayoutGrowsWithItsSlots, not with their square: four times the slots take little
// more than four times the memory.
func TestLayoutGrowsWithItsSlots(t *testing.T) {
	size := func(n int) uint64 {
		slots, order := scattered(n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := Lay(slots, order); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := size(10_000), size(40_000); many > 7*few {
		t.Errorf("10000 slots took %d bytes, 40000 took %d", few, many)
	}
}

// TestLayoutWithMore: a layout that slots were added to finds them, and all it had, and
// the one it was made from is as before.
func TestLayoutWithMore(t *testing.T) {
	for _, n := range []int{1, 30, 3000} {
		r := rand.New(rand.NewPCG(uint64(n), 3))
		slots, order := program(r, 200)
		slots = append(slots, Slot{Size: mem.KiB, Pool: true})
		order = append(order, int32(len(slots)-1), ^int32(len(slots)-1))
		l, err := Lay(slots, order)
		if err != nil {
			t.Fatal(err)
		}
		var more []Slot
		for i := range n {
			at := slots[i%100].Offset // where another slot begins, or behind all
			if i >= 50 {
				at = offset(64*mem.GiB) + mem.Offset(i)*mem.Offset(mem.Grain)
			}
			more = append(more, Slot{Offset: at, Size: mem.Grain})
		}
		places := l.Places
		tape := New(l.With(more), base)
		for i, s := range append(slots, more...) {
			if !s.Pool && tape.place(uint64(s.Offset)) != tape.places[i] {
				t.Fatalf("%d more: slot %d is at place %d, found %d", n, i, tape.places[i], tape.place(uint64(s.Offset)))
			}
		}
		if l.Places != places || len(l.places) != len(slots) || placeIn(l.Index, uint64(64*mem.GiB)+50*uint64(mem.Grain)) != None {
			t.Fatal("the layout itself was changed")
		}
	}
}
