package stream

import (
	"math/rand/v2"
	"testing"
	"time"

	"stalloc/internal/mem"
)

// portions plays steps of a random program over an arena that gets memory only when
// it lacks some; from a step on nothing more. Left out are requests with a chance.
func portions(t *testing.T, seed uint64, n int, left float64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	slots, order := program(r, n)
	layout, err := Lay(slots, order)
	if err != nil {
		t.Fatal(err)
	}
	tape := New(layout, base)
	tape.Hosts = true
	limit := mem.Bytes(r.Int64N(int64(tape.Needs()) + 1))
	covered := mem.Bytes(0)
	tape.Cover(covered)
	for step := range 3 {
		at := make([]mem.Addr, len(slots))
		var absent mem.Bytes // of what is not live, of the slots the order has live
		for i, e := range order {
			if e < 0 {
				if at[^e] != 0 {
					tape.Free(at[^e])
				} else {
					absent -= slots[^e].Size
				}
				continue
			}
			asked := slots[e].Size
			if r.Float64() < left {
				absent += asked
				continue
			}
			if need := tape.Lacks(asked); need > 0 && (step == 0 || need <= limit) {
				if need <= covered || need != mem.Bytes(slots[e].Offset)+asked && left == 0 {
					t.Fatalf("seed %d: with %d bytes the arena lacks some up to %d for slot %d, %+v", seed, covered, need, e, slots[e])
				}
				covered = max(covered, need)
				tape.Cover(covered)
			}
			got := tape.Alloc(asked)
			at[e] = got.Addr
			if got.Addr != 0 && mem.Bytes(got.Addr-base)+asked > covered {
				t.Fatalf("seed %d: slot %d at %x with %d bytes lies beyond the %d there are", seed, got.Slot, got.Addr, asked, covered)
			}
			if got.Addr == 0 {
				absent += asked
			}
			if inside := mem.Bytes(slots[e].Offset)+asked <= covered; left == 0 && step == 0 && (got.Slot != uint32(e) || !inside) {
				t.Fatalf("seed %d: request %d got slot %d", seed, e, got.Slot)
			}
			if err := tape.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if got := tape.Absent(); left == 0 && step == 0 && got != absent {
				t.Fatalf("seed %d, event %d: %d bytes are absent, expected %d", seed, i, got, absent)
			}
		}
		tape.Step()
	}
	if (tape.State.Partial != 0) != (tape.Needs() > covered) {
		t.Fatalf("seed %d: of %d bytes %d are there, partial: %d", seed, tape.Needs(), covered, tape.State.Partial)
	}
	if left == 0 && covered != tape.Needs() {
		t.Fatalf("seed %d: a whole step covers %d of %d bytes", seed, covered, tape.Needs())
	}
}

func TestAnArenaInPortions(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range uint64(60) {
		portions(t, seed+i, 1+int(i), 0)
		portions(t, seed+i, 1+int(i), 0.1)
	}
}

// TestAbsent counts what the order has live and the step has not: left out, and
// freed early.
func TestAbsent(t *testing.T) {
	slots := []Slot{{Offset: 0, Size: 1 << 20}, {Offset: 1 << 20, Size: 2 << 20}, {Offset: 3 << 20, Size: 4 << 20, Persist: true}, {Offset: 7 << 20, Size: 512}}
	layout, err := Lay(slots, []int32{0, 1, 2, 3, ^3, ^1, ^0})
	if err != nil {
		t.Fatal(err)
	}
	tape := New(layout, base)
	first := tape.Alloc(1 << 20)
	tape.Alloc(2 << 20)
	tape.Alloc(4 << 20)
	if got := tape.Absent(); got != 0 {
		t.Errorf("%d bytes are absent from a step that is as planned", got)
	}
	tape.Free(first.Addr)
	if got := tape.Absent(); got != 1<<20 {
		t.Errorf("%d bytes are absent behind an early free of 1 MiB", got)
	}
	tape.Step()
	if got := tape.Absent(); got != 0 {
		t.Errorf("%d bytes are absent where nothing is expected yet", got)
	}
}

// TestOrdersAreCoveredOnTheirOwn: only the order that needs more is looked at.
func TestOrdersAreCoveredOnTheirOwn(t *testing.T) {
	slots := []Slot{{Offset: 0, Size: 1 << 20}, {Offset: 0, Size: 4 << 20}}
	layout, err := Lay(slots, []int32{0, ^0}, []int32{1, ^1})
	if err != nil {
		t.Fatal(err)
	}
	tape := New(layout, base)
	tape.Cover(2 << 20)
	if tape.State.Partial != 0 || tape.Lacks(1<<20) != 0 {
		t.Error("an order that has its memory is looked at")
	}
	tape.Play(1)
	if tape.State.Partial == 0 || tape.Needs() != 4<<20 || tape.Lacks(4<<20) != 4<<20 || tape.Lacks(1<<20) != 0 {
		t.Errorf("an order that lacks memory: %+v", *tape.State)
	}
	if got := tape.Alloc(4 << 20); got.Slot != None {
		t.Errorf("a slot without memory was served: %+v", got)
	}
	tape.Play(1)
	tape.Cover(4 << 20)
	if got := tape.Alloc(4 << 20); got.Slot != 1 || tape.State.Partial != 0 {
		t.Errorf("with all its memory: %+v", got)
	}
}
