package trace

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestLate: the copy is a trace of the same requests in the same order; of the blocks that begin
// and end in a step after the first as many die later as was asked for, and no other.
func TestLate(t *testing.T) {
	for _, name := range []string{"llama_naive", "vit_streams", "mixtral_moe"} {
		want, err := ReadFile(recorded + "/" + name + ".csv.gz")
		if err != nil {
			t.Fatal(err)
		}
		deferredBefore := deferred(want)
		for _, rate := range []float64{0, 0.01, 1} {
			seed := rand.Uint64()
			got := want.Late(seed, rate)
			if _, err := readAll(got.text(), name); err != nil {
				t.Fatalf("%s, rate %v, seed %d: %v", name, rate, seed, err)
			}
			if again := want.Late(seed, rate); firstDifference(again.Events, got.Events) >= 0 {
				t.Errorf("%s, rate %v, seed %d: two copies differ", name, rate, seed)
			}
			for id := range deferred(got) {
				if !deferredBefore[id] {
					t.Errorf("%s, rate %v, seed %d: another stream seems to have put off the free of block %d", name, rate, seed, id)
				}
			}
			late, of := later(t, want, got)
			expected := rate * float64(of)
			if rate == 1 { // where all die later many keep their place among the events
				expected, late = 0, min(late, 1)-1
			}
			if d := float64(late) - expected; d*d > 64*expected {
				t.Errorf("%s, rate %v, seed %d: %d of %d blocks die later, expected about %.0f",
					name, rate, seed, late, of, expected)
			}
		}
	}
}

// later counts the blocks that die later among the events of their step than in the recording, of
// those that begin and end in a step after the first.
func later(t *testing.T, want, got *Trace) (late, of int) {
	freedAt := func(events []Event) (requests []int64, freed map[int64]int) {
		freed = make(map[int64]int)
		for i, e := range events {
			switch e.Kind {
			case Alloc:
				requests = append(requests, e.ID)
			case FreeRequested:
				freed[e.ID] = i
			}
		}
		return requests, freed
	}
	steps, last := want.Steps(), 0
	for _, step := range steps[min(1, len(steps)):] {
		before, was := freedAt(want.Events[step[0]:step[1]])
		after, is := freedAt(got.Events[step[0]:step[1]])
		if len(before) != len(after) {
			t.Fatalf("%s: %d requests in a step, recorded were %d", want.Name, len(after),
				len(before))
		}
		for i, id := range before {
			if after[i] != id {
				t.Fatalf("%s: request %d of a step is block %d, recorded was %d", want.Name, i,
					after[i], id)
			}
			if at, freed := was[id]; freed {
				of++
				if is[id] > at {
					late++
				}
			}
		}
		if i := firstDifference(want.Events[last:step[0]], got.Events[last:step[0]]); i >= 0 {
			t.Fatalf("%s: event %d, in no such step, differs", want.Name, last+i)
		}
		last = step[1]
	}
	return late, of
}

// TestCopies: what is said of a recording beside its events is true of its copies, too, and what is
// asked of the allocator stays where it was.
func TestCopies(t *testing.T) {
	want := &Trace{Name: "made up", Header: "workload made up", Device: anyDevice,
		Skipped: Skipped{Frees: 1}, Events: []Event{
			{Kind: Mark, Mark: "step 0"}, {Kind: Mark, Mark: "step 1"},
			{Kind: Alloc, ID: 0, Size: 512}, {Kind: FreeRequested, ID: 0}, {Kind: FreeCompleted,
				ID: 0},
			{Kind: EmptyCache}, {Kind: Alloc, ID: 1, Size: 512}, {Kind: Alloc, ID: 2, Size: 512},
		}}
	growth, err := Grow(want, want, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]*Trace{"late": want.Late(1, 0),
		"disturbed": want.Disturb(1, 0), "grown": growth.At(2)} {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, wanted %+v", name, got, want)
		}
	}
	got := want.Late(1, 1).Events
	if at := slices.IndexFunc(got,
		func(e Event) bool { return e.Kind == EmptyCache }); got[at-1].Kind == Alloc &&
		got[at-1].ID != 0 {
		t.Errorf("the cache was emptied late, as if it were block 0: %v", got)
	}
}
