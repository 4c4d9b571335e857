package plan

import (
	"math/rand/v2"
	"testing"

	"stalloc/internal/mem"
)

// randomRun records a run on one stream: a prologue and a steady step of so many
// events.
func randomRun(rng *rand.Rand, prologue, steady int) Run {
	var r Recorder
	var steps []*Step
	var live []uint64
	next := uint64(0)
	for _, events := range []int{prologue, steady} {
		for range events {
			if len(live) > 0 && rng.IntN(5) < 2 {
				k := rng.IntN(len(live))
				r.Free(live[k])
				live = append(live[:k], live[k+1:]...)
				continue
			}
			next++
			live = append(live, next)
			r.Alloc(next, mem.Bytes(rng.IntN(20_000)))
			if rng.IntN(10) == 0 {
				r.Exclude(next)
			}
		}
		steps = append(steps, r.Boundary())
	}
	return Run{Prologue: steps[:1], Boundaries: 1, Steady: [][]*Step{steps[1:]}}
}

// TestBehindLeavesNoRoom: what is left of a plan when its first requests were served
// elsewhere is valid, has the other requests in their order, and no memory for
// those that are gone.
func TestBehindLeavesNoRoom(t *testing.T) {
	rng := newRand(t)
	for n := 1; n < 100; n++ {
		p, err := MakeRun(randomRun(rng, n, n), Options{Descents: 30})
		if err != nil {
			t.Fatal(err)
		}
		whole := &p.Streams[0]
		var sizes []mem.Bytes
		var persists []mem.Bytes // that the first so many requests leave
		sum := mem.Bytes(0)
		for _, e := range whole.Tapes[0].Entries {
			if slot := whole.Slots[e.Slot()]; !e.Frees() {
				persists = append(persists, sum)
				sizes = append(sizes, slot.Size)
				if slot.Persist {
					sum += slot.Size
				}
			}
		}
		for gone := range sizes {
			rest, ok := whole.Behind(sizes[:gone])
			if !ok {
				t.Fatalf("a plan of %d requests does not begin with its first %d", len(sizes), gone)
			}
			if err := (&Plan{Streams: []Stream{*rest}}).Validate(); err != nil {
				t.Fatalf("behind %d of %d requests: %v", gone, len(sizes), err)
			}
			left := 0
			for _, e := range rest.Tapes[0].Entries {
				if e.Frees() {
					continue
				}
				if got, want := rest.Slots[e.Slot()].Size, sizes[gone+left]; got != want {
					t.Fatalf("request %d behind %d is of %d bytes, expected %d", left, gone, got, want)
				}
				left++
			}
			if left != len(sizes)-gone || len(rest.Tapes) != 2 || len(rest.Tapes[1].Entries) != len(whole.Tapes[1].Entries) {
				t.Fatalf("behind %d of %d requests %d are left", gone, len(sizes), left)
			}
			if rest.Makespan > whole.Makespan-persists[gone] || rest.LowerBound > rest.Makespan {
				t.Fatalf("behind %d requests that leave %v, a plan of %v takes %v (bound %v)", gone, persists[gone], whole.Makespan, rest.Makespan, rest.LowerBound)
			}
		}
		if len(sizes) > 0 && !whole.Slots[whole.Tapes[0].Entries[0].Slot()].Pool {
			if _, ok := whole.Behind([]mem.Bytes{sizes[0] + 512}); ok {
				t.Fatal("a plan begins with a request of another size")
			}
		}
		if _, ok := whole.Behind(append(sizes, 512)); ok {
			t.Fatal("a plan begins with more requests than it has")
		}
	}
}

// TestBlocksThatPass: a block that outlives the prologue and is freed later has no
// memory set aside for it.
func TestBlocksThatPass(t *testing.T) {
	var r Recorder
	r.Alloc(1, mem.MiB)
	r.Alloc(2, mem.GiB)
	r.Alloc(3, 2*mem.MiB)
	prologue := r.Boundary()
	r.Free(2)
	r.Alloc(4, 4*mem.MiB)
	r.Free(4)
	steady := r.Boundary()
	for _, passes := range []bool{false, true} {
		prologue.Blocks[1].Passes = passes
		p, err := MakeRun(Run{Prologue: []*Step{prologue}, Boundaries: 1, Steady: [][]*Step{{steady}}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := p.Streams[0]
		if slot := s.Slots[s.Tapes[0].Entries[1].Slot()]; slot.Pool != passes || slot.Persist == passes || slot.Size != mem.GiB {
			t.Errorf("passes: %v: its slot is %+v", passes, slot)
		}
		want := 3*mem.MiB + 4*mem.MiB
		if !passes {
			want += mem.GiB
		}
		if s.Makespan != want {
			t.Errorf("passes: %v: the plan takes %v, expected %v", passes, s.Makespan, want)
		}
	}
}
