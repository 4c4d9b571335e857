package stream

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"stalloc/internal/mem"
)

// held is a live block of the model, and its bytes if it lies in the arena.
type held struct {
	served Served
	size   mem.Bytes
}

func (h *held) meets(o *held) bool {
	return h.served.Addr < o.served.Addr+mem.Addr(o.size) && o.served.Addr < h.served.Addr+mem.Addr(h.size)
}

// model plays a tape and remembers every byte of the arena that is in use.
type model struct {
	tape *Tape
	rand *rand.Rand
	live []*held
}

func (m *model) alloc(n mem.Bytes) (*held, error) {
	h := &held{served: m.tape.Alloc(n)}
	s := h.served
	if s.Slot != None || s.Guest {
		h.size = mem.Round(n)
	}
	for _, other := range m.live {
		if h.size > 0 && other.size > 0 && h.meets(other) {
			return nil, fmt.Errorf("%d bytes were served %+v while %+v is live", n, s, other.served)
		}
	}
	m.live = append(m.live, h)
	return h, nil
}

func (m *model) free(h *held) error {
	for i, other := range m.live {
		if other != h {
			continue
		}
		m.live[i] = m.live[len(m.live)-1]
		m.live = m.live[:len(m.live)-1]
		if h.served.Slot == None && !h.served.Guest {
			m.tape.Ended(h.served.Ticket)
			return nil
		}
		if m.rand.IntN(8) == 0 && m.tape.Pin(h.served.Addr) {
			if f := m.tape.Free(h.served.Addr); !f.Pinned {
				return fmt.Errorf("a pinned block was freed: %+v", h.served)
			}
			if !m.tape.Release(h.served.Addr) {
				return fmt.Errorf("a pinned block was lost: %+v", h.served)
			}
			return nil
		}
		if m.rand.IntN(16) == 0 {
			if found, _ := m.tape.Forget(h.served.Addr); !found {
				return fmt.Errorf("a live block is not known: %+v", h.served)
			}
			return nil
		}
		if f := m.tape.Free(h.served.Addr); f.Slot != h.served.Slot || f.Guest != h.served.Guest {
			return fmt.Errorf("free of %+v gave %+v", h.served, f)
		}
		return nil
	}
	return nil
}

// irregular plays steps of a program of which a share of the positions varies,
// with insertions, deletions and late frees.
func irregular(seed uint64, n int, noise float64) (State, error) {
	r := rand.New(rand.NewPCG(seed, 2))
	slots, order := program(r, n)
	for i := range slots {
		switch r.IntN(4) {
		case 0:
			slots[i] = Slot{Size: slots[i].Size, Spread: slots[i].Size - 512, Pool: true}
		case 2:
			if r.IntN(8) == 0 { // no free on the tape
				slots[i] = Slot{Size: slots[i].Size, Pool: true}
				order = slices.DeleteFunc(order, func(e int32) bool { return e == ^int32(i) })
			}
		case 1:
			slots[i].Spread = slots[i].Size / 1024 * 512
		}
	}
	layout, err := Lay(slots, order)
	if err != nil {
		return State{}, err
	}
	m := &model{tape: New(layout, base), rand: r}
	m.tape.Hosts = r.IntN(4) > 0
	var late []*held
	for step := 0; step < 3; step++ {
		at := make([]*held, len(slots))
		for k, e := range order {
			var err error
			switch {
			case e >= 0 && r.Float64() < noise:
				if r.IntN(2) == 0 {
					at[e], err = m.alloc(slots[e].Size + 512)
				}
			case e >= 0:
				at[e], err = m.alloc(slots[e].Size - mem.Bytes(r.Int64N(int64(slots[e].Spread)+1)))
			case at[^e] == nil:
			case r.Float64() < noise:
				late = append(late, at[^e])
			default:
				err = m.free(at[^e])
			}
			if err == nil && r.Float64() < noise {
				var h *held
				h, err = m.alloc(slots[r.IntN(len(slots))].Size)
				late = append(late, h)
			}
			if err == nil && len(late) > 0 && r.Float64() < 0.2 {
				err = m.free(late[0])
				late = late[1:]
			}
			if err == nil && k%7 == 0 {
				err = m.tape.Check()
			}
			if err != nil {
				return *m.tape.State, fmt.Errorf("seed %d, step %d, event %d: %w", seed, step, k, err)
			}
		}
		m.tape.Step()
	}
	return *m.tape.State, m.tape.Check()
}

func TestIrregularStepsNeverOverlap(t *testing.T) {
	for size := 1; size <= 256; size *= 2 {
		for seed := uint64(0); seed < 20; seed++ {
			for _, noise := range []float64{0, 0.02, 0.3} {
				if _, err := irregular(seed, size, noise); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func FuzzIrregularSteps(f *testing.F) {
	f.Add(uint64(1), uint16(200), uint8(10))
	f.Fuzz(func(t *testing.T, seed uint64, n uint16, noise uint8) {
		if _, err := irregular(seed, int(n%600)+1, float64(noise)/256); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRanges: an entry of a range takes what lies in it, in the quick case, and a
// guest's mark closes it.
func TestRanges(t *testing.T) {
	slots := []Slot{{Size: 8 * mem.MiB, Spread: 6 * mem.MiB}, {Offset: 8 << 20, Size: 4096, Spread: 3584}}
	layout, err := Lay(slots, []int32{0, 1, ^0, ^1})
	if err != nil {
		t.Fatal(err)
	}
	tape := New(layout, base)
	for n, want := range map[mem.Bytes]bool{2 * mem.MiB: true, 2*mem.MiB - 512: false, 5 * mem.MiB: true, 8 * mem.MiB: true, 8*mem.MiB + 512: false, 512: false} {
		if got := tape.Entries[0].takes(uint64(n)); got != want {
			t.Errorf("the first entry takes %v: %v", n, got)
		}
	}
	closed := tape.Entries[0]
	closed.Size |= marked
	if closed.takes(uint64(5 * mem.MiB)) {
		t.Error("a marked entry takes a request")
	}
	a, b := expect(t, tape, 3*mem.MiB, 0), expect(t, tape, 512, 1)
	if live := tape.Leave(); len(live) != 2 || live[0].Asked != uint64(3*mem.MiB) || live[0].Slot.Size != 8*mem.MiB {
		t.Errorf("live are %+v", live)
	}
	tape.Free(a)
	tape.Free(b)
	tape.Step()
	expect(t, tape, 8*mem.MiB+512, None) // larger than ever
	for _, s := range []Slot{{Size: 1024, Spread: 1024}, {Size: 1024, Spread: 100}, {Size: 2 << 40, Spread: 512}} {
		if _, err := Lay([]Slot{s}, []int32{0, ^0}); err == nil {
			t.Errorf("%+v was accepted", s)
		}
	}
}

// TestGuestsLifeInShort: placed in a hole, found by its address, marked when it
// overstays, and handed over to another tape.
func TestGuestsLifeInShort(t *testing.T) {
	slots := []Slot{{Size: mem.MiB, Spread: 512 * mem.KiB, Pool: true}, {Offset: 0, Size: 4 * mem.MiB}, {Offset: 4 << 20, Size: mem.MiB}}
	order := []int32{0, 2, ^0}
	for len(slots) < 80 { // time passes
		n := int32(len(slots))
		slots = append(slots, Slot{Offset: 5 << 20, Size: 512})
		order = append(order, n, ^n)
	}
	layout, err := Lay(slots, append(order, 1, ^1, ^2))
	if err != nil {
		t.Fatal(err)
	}
	tape := New(layout, base)
	tape.Hosts = true
	got := tape.Alloc(900 * mem.KiB)
	if !got.Guest || got.Slot != None || got.Addr < base || got.Addr >= base+4<<20 {
		t.Fatalf("served %+v, want a guest where slot 1 will be", got)
	}
	if live := tape.Leave(); len(live) != 1 || live[0].Asked != uint64(900*mem.KiB) {
		t.Fatalf("handed over %+v", live)
	}
	expect(t, tape, mem.MiB, 2)
	for i := uint32(3); i < 80; i++ {
		tape.Free(expect(t, tape, 512, i))
	}
	expect(t, tape, 4*mem.MiB, None) // the guest is still there
	if f := tape.Free(got.Addr); !f.Guest || f.Asked != 900*mem.KiB {
		t.Fatalf("free of the guest gave %+v", f)
	}
	if n := tape.Guests(); n != 0 {
		t.Fatalf("%d guests are left", n)
	}
	tape.Step()
	got = tape.Alloc(mem.MiB)
	tape.Free(got.Addr)
	expect(t, tape, mem.MiB, None) // slot 2 is owed: nobody freed it
	if err := tape.Check(); err != nil {
		t.Fatal(err)
	}
}
