package wish

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func list(sizes ...uint64) (entries []Entry) {
	for i, size := range sizes {
		entries = append(entries, Of(size, uint64(i)+1))
	}
	return entries
}

func span(from, n uint64) (sizes []uint64) {
	for i := range n {
		sizes = append(sizes, from+i)
	}
	return sizes
}

// TestFindsTheList: a stretch of an evaluation is inserted in a step. The other list has
// it, and what comes before it decides at which place.
func TestFindsTheList(t *testing.T) {
	train := list(span(100, 40)...)
	evaluation := span(1000, 40)
	longer := list(append(append(append(span(100, 20), evaluation...), evaluation...), span(120, 20)...)...)
	tape, patience := New(train), Patience{}
	patience.Begin(&tape)
	var last []uint64
	next := func(size uint64) Entry {
		last = slices.Insert(last, 0, size)
		return tape.Next(size)
	}
	for _, size := range span(100, 20) {
		if next(size) == 0 || patience.Lost(&tape) {
			t.Fatalf("%d is not expected", size)
		}
	}
	n := 0
	for ; !patience.Lost(&tape); n++ {
		if n == len(evaluation) {
			t.Fatal("the tape is not lost")
		}
		next(evaluation[n])
	}
	found, at := tape.Find(last, [][]Entry{train, longer})
	if found != 1 || at != 20+n-1 {
		t.Errorf("list %d goes on behind %d, want the other behind %d", found, at, 20+n-1)
	}
	tape.Replace(longer)
	tape.Resume(at)
	patience.Begin(&tape)
	for i, size := range evaluation[n:] {
		if e := next(size); e != longer[20+n+i] || patience.Lost(&tape) {
			t.Errorf("%d has the entry %x on the other list", size, e)
		}
	}
}

// TestFindsTheMost: of random lists with few sizes the one and the place are found that
// comparing all of them finds.
func TestFindsTheMost(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		few := func(n int) (sizes []uint64) {
			for range n {
				sizes = append(sizes, uint64(1+r.IntN(8)/7))
			}
			return sizes
		}
		tape := New(list(few(r.IntN(200))...))
		tape.Cursor = uint32(r.IntN(len(tape.Entries) + 1))
		lists, last := [][]Entry{nil, tape.Entries, list(few(r.IntN(300))...), list(few(r.IntN(300))...)}, few(r.IntN(80))
		list, at, most := -1, 0, max(ending(last, tape.Entries, int(tape.Cursor)-1), leastLast-1)
		for i, entries := range lists {
			for k := range entries {
				if n := ending(last, entries, k); n > most {
					list, at, most = i, k, n
				}
			}
		}
		if gotList, gotAt := tape.Find(last, lists); gotList != list || gotAt != at {
			t.Fatalf("seed %d: found %d of list %d, want %d of list %d, %d in a row", seed, gotAt, gotList, at, list, most)
		}
	}
}

// TestPatience: what no list has is looked for less and less often; while most requests
// are expected, nothing is.
func TestPatience(t *testing.T) {
	tape, patience := New(list(span(1, 4000)...)), Patience{}
	patience.Begin(&tape)
	looked := 0
	var last []uint64
	for i := range uint64(1000) {
		last = slices.Insert(last, 0, 5000+i)
		tape.Next(5000 + i)
		if patience.Lost(&tape) {
			looked++
			if found, _ := tape.Find(last[:min(len(last), MostLast)], [][]Entry{tape.Entries}); found >= 0 {
				t.Fatal("it is on no list")
			}
		}
	}
	if looked == 0 || looked > 7 {
		t.Errorf("looked for %d times", looked)
	}
	tape.Boundary()
	patience.Begin(&tape)
	for i := range uint64(2000) {
		tape.Next(2*i + 1)
		tape.Next(2*i + 2)
		tape.Next(9000)
		if patience.Lost(&tape) {
			t.Fatalf("lost behind %d", 2*i+2)
		}
	}
}
