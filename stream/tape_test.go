package stream

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"stalloc/internal/mem"
)

const base = mem.Addr(1 << 40)

// small is the tape of the package's documentation.
func small(t *testing.T) *Tape {
	t.Helper()
	layout, err := Lay([]Slot{{Offset: 0, Size: 4096}, {Offset: 4096, Size: 2 << 20}, {Offset: 0, Size: 4096}}, []int32{0, 1, ^0, 2, ^1, ^2})
	if err != nil {
		t.Fatal(err)
	}
	return New(layout, base)
}

func expect(t *testing.T, tape *Tape, asked mem.Bytes, slot uint32) mem.Addr {
	t.Helper()
	got := tape.Alloc(asked)
	if got.Slot != slot {
		t.Fatalf("Alloc(%d) served slot %d, want %d", asked, int32(got.Slot), int32(slot))
	}
	if err := tape.Check(); err != nil {
		t.Fatal(err)
	}
	return got.Addr
}

func TestRegularStepsHitAll(t *testing.T) {
	tape := small(t)
	for step := 0; step < 3; step++ {
		a := expect(t, tape, 4000, 0)
		b := expect(t, tape, 2<<20, 1)
		if a != base || b != base+4096 {
			t.Fatalf("addresses %x, %x", a, b)
		}
		if f := tape.Free(a); f.Slot != 0 || f.Asked != 4000 {
			t.Fatalf("free of slot 0 gave %+v", f)
		}
		c := expect(t, tape, 4096, 2)
		tape.Free(b)
		tape.Free(c)
		tape.Step()
	}
	if s := tape.State; s.Hits != 9 || s.Misses != 0 || s.Late != 0 {
		t.Fatalf("state %+v", *s)
	}
}

func TestLateFreeIsOwedAndGuards(t *testing.T) {
	tape := small(t)
	a := expect(t, tape, 4096, 0)
	expect(t, tape, 2<<20, 1)
	expect(t, tape, 4096, None) // slot 2 lies where slot 0 still is
	if tape.State.Owed != 1 {
		t.Fatalf("owed %d, want 1", tape.State.Owed)
	}
	tape.Free(a)
	if tape.State.Owed != 0 {
		t.Fatal("the late free left the slot owed")
	}
	expect(t, tape, 4096, None) // skipped slots are never served late
}

func TestPinnedSlotStaysUntilRelease(t *testing.T) {
	tape := small(t)
	a := expect(t, tape, 4096, 0)
	if !tape.Pin(a) || tape.Pin(a+512) {
		t.Fatal("Pin finds live slots only, by their start")
	}
	if f := tape.Free(a); !f.Pinned {
		t.Fatal("a pinned slot was freed")
	}
	expect(t, tape, 2<<20, 1)
	expect(t, tape, 4096, None)
	tape.Release(a)
	tape.Step()
	expect(t, tape, 4096, 0)
}

func TestFullOwedSetStopsServing(t *testing.T) {
	var slots []Slot
	var order []int32
	for i := int32(0); i < MaxOwed+2; i++ {
		slots = append(slots, Slot{Offset: mem.Offset(i) * 512, Size: 512})
		order = append(order, i)
	}
	for i := int32(0); i < MaxOwed+2; i++ {
		order = append(order, ^i)
	}
	layout, err := Lay(append(slots, Slot{Offset: 1 << 20, Size: 1024}), append(order, MaxOwed+2, ^(MaxOwed+2)))
	if err != nil {
		t.Fatal(err)
	}
	tape := New(layout, base)
	var addrs []mem.Addr
	for i := uint32(0); i < MaxOwed+2; i++ {
		addrs = append(addrs, expect(t, tape, 512, i))
	}
	tape.moveTo(2 * (MaxOwed + 2)) // all frees are late: more owed than the guard can test
	expect(t, tape, 1024, None)
	if tape.State.Off == 0 {
		t.Fatal("the tape went on without a complete guard")
	}
	for _, a := range addrs {
		tape.Free(a)
	}
	tape.Step()
	expect(t, tape, 512, 0)
}

func TestLayRefusesWhatItCannotServe(t *testing.T) {
	for _, c := range []struct {
		slot  Slot
		order []int32
	}{
		{Slot{Offset: 0, Size: 100}, nil}, {Slot{Offset: 7, Size: 512}, nil}, {Slot{Offset: -512, Size: 512}, nil},
		{Slot{Offset: 1 << 42, Size: 512}, nil}, {Slot{Offset: 0, Size: 512}, []int32{1}}, {Slot{Offset: 0, Size: 512}, []int32{^1}},
	} {
		if _, err := Lay([]Slot{c.slot}, c.order); err == nil {
			t.Errorf("Lay accepted %+v, %v", c.slot, c.order)
		}
	}
}

// program is a random valid plan: slots placed first fit along a random order.
func program(r *rand.Rand, n int) ([]Slot, []int32) {
	sizes := []mem.Bytes{512, 512, 1024, 4096, 1 << 20, 2 << 20, 6 << 20}
	var slots []Slot
	var order, live []int32
	for len(slots) < n || len(live) > 0 {
		if len(slots) < n && (len(live) == 0 || r.IntN(2) == 0) {
			s := Slot{Size: sizes[r.IntN(len(sizes))]}
			for moved := true; moved; {
				moved = false
				for _, l := range live {
					if o := slots[l]; s.Offset < o.Offset+offset(o.Size) && o.Offset < s.Offset+offset(s.Size) {
						s.Offset, moved = o.Offset+offset(o.Size), true
					}
				}
			}
			live = append(live, int32(len(slots)))
			order = append(order, int32(len(slots)))
			slots = append(slots, s)
			continue
		}
		i := r.IntN(len(live))
		order = append(order, ^live[i])
		live[i] = live[len(live)-1]
		live = live[:len(live)-1]
	}
	return slots, order
}

// perturb plays steps of a program with insertions, deletions, changed sizes and
// late frees, against a model that remembers every live range.
func perturb(seed uint64, n int, noise float64) (State, error) {
	r := rand.New(rand.NewPCG(seed, 1))
	slots, order := program(r, n)
	layout, err := Lay(slots, order)
	if err != nil {
		return State{}, err
	}
	tape := New(layout, base)
	model := map[mem.Addr]mem.Bytes{}
	alloc := func(n mem.Bytes) (mem.Addr, error) {
		got := tape.Alloc(n)
		if got.Slot == None {
			return 0, nil
		}
		for a, size := range model {
			if got.Addr < a+mem.Addr(size) && a < got.Addr+mem.Addr(n) {
				return 0, fmt.Errorf("slot %d at %x (%d bytes) overlaps the live block at %x (%d bytes)", got.Slot, got.Addr, n, a, size)
			}
		}
		model[got.Addr] = n
		return got.Addr, nil
	}
	free := func(a mem.Addr) error {
		if _, ok := model[a]; !ok {
			return nil
		}
		delete(model, a)
		if tape.Free(a).Slot == None {
			return fmt.Errorf("free of the live block at %x was refused", a)
		}
		return nil
	}
	late := []mem.Addr{}
	for step := 0; step < 4; step++ {
		at := make([]mem.Addr, len(slots))
		for _, e := range order {
			var err error
			switch {
			case e >= 0 && r.Float64() < noise: // left out or changed
				if r.IntN(2) == 0 {
					at[e], err = alloc(slots[e].Size + 512)
				}
			case e >= 0:
				at[e], err = alloc(slots[e].Size)
			case r.Float64() < noise:
				late = append(late, at[^e])
			default:
				err = free(at[^e])
			}
			if err == nil && r.Float64() < noise { // inserted
				var a mem.Addr
				a, err = alloc(slots[r.IntN(len(slots))].Size)
				late = append(late, a)
			}
			if err == nil && len(late) > 0 && r.Float64() < 0.2 {
				err = free(late[0])
				late = late[1:]
			}
			if err == nil {
				err = tape.Check()
			}
			if err != nil {
				return *tape.State, fmt.Errorf("seed %d, step %d: %w", seed, step, err)
			}
		}
		tape.Step()
	}
	return *tape.State, nil
}

func TestPerturbedStepsNeverOverlap(t *testing.T) {
	for size := 1; size <= 64; size *= 2 {
		for seed := uint64(0); seed < 60; seed++ {
			for _, noise := range []float64{0, 0.02, 0.3} {
				state, err := perturb(seed, size, noise)
				if err != nil {
					t.Fatal(err)
				}
				if noise == 0 && state.Misses != 0 {
					t.Fatalf("seed %d: %d misses in regular steps", seed, state.Misses)
				}
			}
		}
	}
}

func FuzzPerturbedSteps(f *testing.F) {
	f.Add(uint64(1), uint8(20), uint8(10))
	f.Fuzz(func(t *testing.T, seed uint64, n, noise uint8) {
		if _, err := perturb(seed, int(n)+1, float64(noise)/256); err != nil {
			t.Fatal(err)
		}
	})
}

func TestResynchronisesAfterNoise(t *testing.T) {
	var hits, requests uint64
	for seed := uint64(0); seed < 40; seed++ {
		state, err := perturb(seed, 400, 0.002)
		if err != nil {
			t.Fatal(err)
		}
		hits += state.Hits
		requests += state.Hits + state.Misses
	}
	if share := float64(hits) / float64(requests); share < 0.85 {
		t.Errorf("with 0.2 %% noise only %.1f %% of the requests hit", 100*share)
	} else {
		t.Logf("with 0.2 %% noise %.2f %% of the requests hit", 100*share)
	}
}

func TestServingAllocatesNothing(t *testing.T) {
	tape := small(t)
	if n := testing.AllocsPerRun(100, func() {
		a, b := tape.Alloc(4096), tape.Alloc(2<<20)
		tape.Free(a.Addr)
		tape.Alloc(3 << 20)
		c := tape.Alloc(4096)
		tape.Free(b.Addr)
		tape.Free(c.Addr)
		tape.Step()
	}); n != 0 {
		t.Errorf("serving a step allocates %v times", n)
	}
}

func BenchmarkHitPair(b *testing.B) {
	layout, err := Lay([]Slot{{Offset: 0, Size: 4096}}, []int32{0, ^0})
	if err != nil {
		b.Fatal(err)
	}
	tape := New(layout, base)
	for b.Loop() {
		tape.Free(tape.Alloc(4096).Addr)
		tape.State.Cursor = 0
	}
}
