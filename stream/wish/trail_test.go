package wish

import "testing"

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

// TestTrailFindsTheList: a stretch of an evaluation is inserted in a step. The other list has
// it, and what comes before it decides at which place.
func TestTrailFindsTheList(t *testing.T) {
	train := list(span(100, 40)...)
	evaluation := span(1000, 40)
	longer := list(append(append(append(span(100, 20), evaluation...), evaluation...), span(120, 20)...)...)
	tape, trail := New(train), Trail{}
	trail.Begin()
	for _, size := range span(100, 20) {
		if e, lost := trail.Next(&tape, size); e == 0 || lost {
			t.Fatalf("%d is not expected", size)
		}
	}
	lost := false
	n := 0
	for !lost {
		if _, lost = trail.Next(&tape, evaluation[n]); n > 39 {
			t.Fatal("the tape is not lost")
		}
		n++
	}
	if found, at := trail.Find(&tape, [][]Entry{train, longer}); found != 1 || at != 20+n-1 {
		t.Errorf("list %d goes on behind %d, want the other behind %d", found, at, 20+n-1)
	}
	tape.Replace(longer)
	if e := trail.Resume(&tape, 20+n-1); e != longer[20+n-1] {
		t.Errorf("the entry is %x", e)
	}
	for _, size := range evaluation[n:] {
		if e, lost := trail.Next(&tape, size); e == 0 || lost {
			t.Errorf("%d is not expected on the other list", size)
		}
	}
}

// TestTrailLeavesTheTape: what no list has is looked for less and less often, and what the
// tape served meanwhile counts.
func TestTrailLeavesTheTape(t *testing.T) {
	tape, trail := New(list(span(1, 4000)...)), Trail{}
	trail.Begin()
	looked := 0
	for i := range uint64(1000) {
		if _, lost := trail.Next(&tape, 5000+i); lost {
			looked++
			if found, _ := trail.Find(&tape, [][]Entry{tape.Entries}); found >= 0 {
				t.Fatal("it is on no list")
			}
		}
	}
	if looked == 0 || looked > 7 {
		t.Errorf("looked for %d times", looked)
	}
	trail.Begin()
	tape.Boundary()
	for i := range uint64(2000) { // every other one is served by C
		tape.Next(2*i + 1)
		if e, lost := trail.Next(&tape, 2*i+2); e == 0 || lost {
			t.Fatalf("%d is lost", 2*i+2)
		}
	}
	if got := trail.ending(tape.Entries, 3999); got != trailKept {
		t.Errorf("%d of the last requests are known, want %d", got, trailKept)
	}
}
