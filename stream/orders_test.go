package stream

import (
	"math/rand/v2"
	"testing"
	"time"

	"stalloc/internal/mem"
)

// kinds is a tape with three orders: training, evaluation, which begins alike, and
// another batch size.
func kinds(t *testing.T) *Tape {
	t.Helper()
	size := []mem.Bytes{1024, 2048, 4096, 1024, 2048, 8192, 1536}
	var slots []Slot
	for i, at := range []mem.Offset{0, 1024, 3072, 0, 1024, 3072, 512} {
		slots = append(slots, Slot{Offset: at, Size: size[i]})
	}
	layout, err := Lay(slots,
		[]int32{0, 1, 2, ^2, ^1, ^0},
		[]int32{3, 4, ^3, 5, ^5, ^4},
		[]int32{6, ^6})
	if err != nil {
		t.Fatal(err)
	}
	return New(layout, base)
}

func TestTurnsAtTheFork(t *testing.T) {
	tape := kinds(t)
	a := expect(t, tape, 1024, 0)
	b := expect(t, tape, 2048, 1)
	expect(t, tape, 8192, 5) // evaluation after all; its slot is free
	if tape.Order() != 1 || tape.State.Owed != 2 {
		t.Fatalf("order %d with %d owed, want 1 with 2", tape.Order(), tape.State.Owed)
	}
	tape.Free(a)
	tape.Free(b)
	tape.Free(base + 3072)
	if tape.State.Owed != 0 || tape.State.LiveN != 0 {
		t.Fatalf("state %+v", *tape.State)
	}
	tape.Play(1)
	c := expect(t, tape, 1536, 6)
	tape.Free(c)
}

func TestTurnsAtTheFirstRequest(t *testing.T) {
	tape := kinds(t)
	tape.Play(2)
	expect(t, tape, 1024, 0)
	if tape.Order() != 0 {
		t.Fatalf("order %d, want 0", tape.Order())
	}
}

// TestTurnKeepsTheGuard: what was handed out before the turn may lie where the
// other order's slot does.
func TestTurnKeepsTheGuard(t *testing.T) {
	layout, err := Lay([]Slot{{Offset: 0, Size: 4096}, {Offset: 4096, Size: 4096}, {Offset: 4096, Size: 4096}, {Offset: 0, Size: 512}},
		[]int32{0, 1, ^1, ^0}, []int32{2, 3, ^3, ^2})
	if err != nil {
		t.Fatal(err)
	}
	tape := New(layout, base)
	a := expect(t, tape, 4096, 0)
	expect(t, tape, 512, None)
	if tape.Order() != 1 {
		t.Fatalf("order %d, want 1", tape.Order())
	}
	tape.Free(a)
}

func TestAStrayedStepDoesNotTurn(t *testing.T) {
	tape := kinds(t)
	expect(t, tape, 1024, 0)
	expect(t, tape, 512, None) // nobody's
	expect(t, tape, 2048, 1)
	expect(t, tape, 8192, None)
	if tape.Order() != 0 {
		t.Fatalf("order %d, want 0", tape.Order())
	}
	tape.Step()
	expect(t, tape, 1024, None) // slot 0 is still live, and the step is what was expected
	if tape.Order() != 0 {
		t.Fatalf("order %d, want 0", tape.Order())
	}
}

func TestAPrologueIsNeverTurnedTo(t *testing.T) {
	layout, err := Lay([]Slot{{Offset: 0, Size: 4096, Persist: true}, {Offset: 4096, Size: 512}}, []int32{0}, []int32{1, ^1})
	if err != nil {
		t.Fatal(err)
	}
	tape := New(layout, base)
	tape.Play(1)
	expect(t, tape, 4096, None)
	tape.Play(0)
	expect(t, tape, 512, None)
}

func TestSuccession(t *testing.T) {
	for _, period := range [][]int{{0}, {0, 1}, {0, 0, 0, 0, 1}, {1, 1, 2, 0, 1, 2}, append(make([]int, 99), 1)} {
		var s Succession
		if s.Next() != 0 {
			t.Fatal("without a past the first order is next")
		}
		wrong := 0
		for i := range 6 * len(period) {
			now := period[i%len(period)]
			if s.Next() != now && i >= 2*len(period) {
				wrong++
			}
			s.Ended(now)
		}
		if wrong > 0 {
			t.Errorf("period %v: %d wrong guesses behind the second period", period, wrong)
		}
	}
	var s Succession
	for i := range 3 * succession {
		s.Ended(i % 7)
	}
	if len(s.past) > succession || s.Next() != 3*succession%7 {
		t.Errorf("a long past of %d: next is %d", len(s.past), s.Next())
	}
}

// TestOrdersRandom plays random kinds of step in random succession, guessed
// wrong half of the time, over slots laid at random so that slots of different
// orders collide.
func TestOrdersRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		var slots []Slot
		var orders [][]int32
		for range 2 + rng.IntN(3) {
			var order []int32
			at := mem.Offset(rng.IntN(4)) * 512
			for range 1 + rng.IntN(12) {
				size := mem.Bytes(1+rng.IntN(3)) * 512
				order = append(order, int32(len(slots)))
				slots = append(slots, Slot{Offset: at, Size: size})
				at += mem.Offset(size)
			}
			for i := range len(order) {
				order = append(order, ^order[len(order)-1-i-i])
			}
			orders = append(orders, order)
		}
		layout, err := Lay(slots, orders...)
		if err != nil {
			t.Fatal(err)
		}
		tape, ref := New(layout, base), map[mem.Addr]mem.Bytes{}
		for range 20 {
			actual := orders[rng.IntN(len(orders))]
			if rng.IntN(4) > 0 { // else blocks stay live over the boundary
				for addr := range ref {
					tape.Free(addr)
					delete(ref, addr)
				}
			}
			tape.Play(rng.IntN(len(orders)))
			for _, e := range actual {
				if e < 0 {
					continue
				}
				got := tape.Alloc(slots[e].Size)
				if err := tape.Check(); err != nil {
					t.Fatal(err)
				}
				if got.Slot == None {
					continue
				}
				for addr, size := range ref {
					if got.Addr < addr+mem.Addr(size) && addr < got.Addr+mem.Addr(slots[e].Size) {
						t.Fatalf("two live blocks overlap at %x", got.Addr)
					}
				}
				ref[got.Addr] = slots[e].Size
			}
		}
	}
}
