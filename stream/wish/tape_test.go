package wish

import (
	"math/rand/v2"
	"testing"
)

func entries(sizes ...uint64) []Entry {
	list := make([]Entry, len(sizes))
	for i, n := range sizes {
		list[i] = Of(n, uint64(i+1)*1000)
	}
	return list
}

// TestFollows: what a tape answers where the requests are not those that it expects. A
// number is the position whose place is answered, -1: none.
func TestFollows(t *testing.T) {
	for _, c := range []struct {
		name     string
		expected []uint64
		requests []uint64
		want     []int
	}{
		{"the same", []uint64{4, 2, 4, 6}, []uint64{4, 2, 4, 6}, []int{0, 1, 2, 3}},
		{"one inserted", []uint64{4, 2, 4, 6}, []uint64{4, 9, 2, 4, 6}, []int{0, -1, 1, 2, 3}},
		{"two inserted", []uint64{4, 2, 4, 6}, []uint64{4, 9, 8, 2, 4, 6}, []int{0, -1, -1, 1, 2, 3}},
		{"another size", []uint64{4, 2, 4, 6}, []uint64{4, 3, 4, 6}, []int{0, -1, 2, 3}},
		{"one left out", []uint64{4, 2, 5, 6, 7}, []uint64{4, 5, 6, 7}, []int{0, -1, 3, 4}},
		{"more than expected", []uint64{4, 2}, []uint64{4, 2, 4, 2}, []int{0, 1, -1, -1}},
		{"nothing expected", nil, []uint64{4, 2}, []int{-1, -1}},
		{"no place", []uint64{4}, []uint64{4}, []int{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tape := New(entries(c.expected...))
			for round := range 2 {
				missed := uint64(0)
				for i, n := range c.requests {
					got, want := tape.Next(n), Entry(0)
					if c.want[i] >= 0 {
						want = tape.Entries[c.want[i]]
					} else {
						missed++
					}
					if got != want {
						t.Fatalf("round %d, request %d of %d units: %d at %d, want %d at %d", round, i, n, got.Size(), got.Place(), want.Size(), want.Place())
					}
				}
				if tape.Missed != missed || tape.Matched != uint64(len(c.requests))-missed {
					t.Errorf("%d matched and %d missed of %d", tape.Matched, tape.Missed, len(c.requests))
				}
				tape.Boundary()
			}
		})
	}
}

// TestNoise: with one request in ten left out or changed most are matched still, and
// whatever comes, a wish is for a request of its size.
func TestNoise(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 3))
		sizes := make([]uint64, 300)
		for i := range sizes {
			sizes[i] = 1 + r.Uint64N(40)
		}
		tape := New(entries(sizes...))
		for step := range 3 {
			for _, n := range sizes {
				switch r.IntN(20) {
				case 0:
					continue
				case 1:
					n = 1 + r.Uint64N(50)
				}
				if e := tape.Next(n); e != 0 && e.Size() != n {
					t.Fatalf("seed %d, step %d: %d units got the entry of %d at %d", seed, step, n, e.Size(), e.Place())
				}
			}
			if tape.Matched < uint64(len(sizes))/2 {
				t.Errorf("seed %d: only %d of %d requests are matched", seed, tape.Matched, len(sizes))
			}
			tape.Boundary()
		}
	}
}

// TestEntry: a size and a place come back from one word, up to the largest of both.
func TestEntry(t *testing.T) {
	for _, e := range [][2]uint64{{1, 0}, {1<<31 - 1, 1<<33 - 1}, {7, 12345678901 % (1 << 33)}} {
		if got := Of(e[0], e[1]); got.Size() != e[0] || got.Place() != e[1] {
			t.Errorf("%v came back as %d at %d", e, got.Size(), got.Place())
		}
	}
}

// TestEvent: what an event is made of comes back from it, up to the largest of each.
func TestEvent(t *testing.T) {
	for _, x := range []Event{EventOf(EventHit, 1, 2, 3), EventOf(EventDone, 1<<50, 1<<40-1, 1<<16-1)} {
		if got := EventOf(x.Kind(), x.Addr, x.Size(), x.Stream()); got != x {
			t.Errorf("%+v came back as %+v", x, got)
		}
	}
	if e := EventOf(EventLate, 8, 5, 7); e.Kind() != EventLate || e.Size() != 5 || e.Stream() != 7 {
		t.Errorf("%+v: kind %d, size %d, stream %d", e, e.Kind(), e.Size(), e.Stream())
	}
}

// BenchmarkNext is a request that the tape expects.
func BenchmarkNext(b *testing.B) {
	sizes := make([]uint64, 4096)
	for i := range sizes {
		sizes[i] = uint64(i%7 + 1)
	}
	tape := New(entries(sizes...))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%len(sizes) == 0 {
			tape.Boundary()
		}
		if tape.Next(sizes[i%len(sizes)]) == 0 {
			b.Fatal("a miss")
		}
	}
}
