package trace

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// deferred names the blocks whose free's two events do not follow each other.
func deferred(t *Trace) map[int64]bool {
	late := make(map[int64]bool)
	requested := int64(-1)
	for _, e := range t.Events {
		switch e.Kind {
		case Mark:
			continue
		case FreeRequested:
			requested = e.ID
			continue
		case FreeCompleted:
			if requested != e.ID {
				late[e.ID] = true
			}
		}
		requested = -1
	}
	return late
}

// TestDisturb: the copy is a trace, differs from the recording as often as was
// asked for, and nowhere else.
func TestDisturb(t *testing.T) {
	for _, name := range []string{"llama_naive", "vit_streams", "mixtral_moe"} {
		want, err := ReadFile(recorded + "/" + name + ".csv.gz")
		if err != nil {
			t.Fatal(err)
		}
		late := deferred(want)
		for _, rate := range []float64{0, 0.001, 0.01, 0.5, 1} {
			seed := rand.Uint64()
			got := want.Disturb(seed, rate)
			if _, err := readAll(got.text(), name); err != nil {
				t.Fatalf("%s, rate %v, seed %d: %v", name, rate, seed, err)
			}
			inserted, omitted, requests := difference(want, got)
			t.Logf("%s, rate %v, seed %d: %d of %d requests inserted, %d left out", name, rate,
				seed, inserted, requests, omitted)
			for _, n := range []int{inserted, omitted} {
				expected := rate / 2 * float64(requests)
				if d := float64(n) - expected; d*d > 64*expected {
					t.Errorf("%s, rate %v, seed %d: %d of %d requests, expected about %.0f", name,
						rate, seed, n, requests, expected)
				}
			}
			for id := range deferred(got) {
				if !late[id] {
					t.Errorf("%s, rate %v, seed %d: the free of block %d was put off", name, rate,
						seed, id)
				}
			}
			if again := want.Disturb(seed, rate); firstDifference(again.Events, got.Events) >= 0 {
				t.Errorf("%s, rate %v, seed %d: two copies differ", name, rate, seed)
			}
		}
	}
}

// difference counts the requests inserted into the steps of a copy after the
// first, those left out there, and all of them. Anywhere else the two are equal.
func difference(want, got *Trace) (inserted, omitted, requests int) {
	known, kept := make(map[int64]bool), make(map[int64]bool)
	for _, e := range want.Events {
		known[e.ID] = known[e.ID] || e.Kind == Alloc
	}
	about := func(e Event) bool { return e.Kind != Mark && e.Kind != EmptyCache }
	var rest []Event
	for _, e := range got.Events {
		if about(e) && !known[e.ID] {
			if e.Kind == Alloc {
				inserted++
			}
			continue
		}
		kept[e.ID] = kept[e.ID] || e.Kind == Alloc
		rest = append(rest, e)
	}
	for _, step := range want.Steps()[1:] {
		for _, e := range want.Events[step[0]:step[1]] {
			if e.Kind == Alloc {
				requests++
				if !kept[e.ID] {
					omitted++
					known[e.ID] = false
				}
			}
		}
	}
	of := slices.DeleteFunc(slices.Clone(want.Events),
		func(e Event) bool { return about(e) && !known[e.ID] })
	if firstDifference(of, rest) >= 0 {
		return -1, -1, requests
	}
	return inserted, omitted, requests
}

// TestDisturbStaysInItsStep: what a step gets in addition ends with it, even
// after its last request, and set-up and the first step are left alone.
func TestDisturbStaysInItsStep(t *testing.T) {
	const text = "# workload t\n# step 0\na,0,512,0,1\nr,0,2\nf,0,2\n" +
		"# step 1\na,1,512,3,3\nr,1,4\nf,1,4\na,2,1024,3,5\nr,2,5\n# step 2\nf,2,6\na,3,9,0,6\n# end\n"
	events, err := readAll([]byte(text), "t")
	if err != nil {
		t.Fatal(err)
	}
	in := Trace{Header: "workload t", Events: events}
	inserts := 0
	for seed := range uint64(200) {
		got := in.Disturb(seed, 1)
		step := -1
		live := make(map[int64]int)
		for _, e := range got.Events {
			switch {
			case e.Kind == Mark:
				step++
				for id, begun := range live {
					t.Fatalf("seed %d: block %d of step %d lives at the end of it: %v", seed, id,
						begun, got.Events)
				}
			case e.ID > 3 && e.Kind == Alloc:
				inserts++
				if step != 1 || e.Stream != 3 || e.Size != 512 {
					t.Fatalf("seed %d: inserted %+v in step %d", seed, e, step)
				}
				live[e.ID] = step
			case e.Kind == FreeCompleted:
				delete(live, e.ID)
			}
		}
		if late := deferred(got); step != 3 || len(late) > 0 {
			t.Fatalf("seed %d: %d marks, frees of %v put off", seed, step+1, late)
		}
	}
	if inserts == 0 {
		t.Error("nothing was inserted")
	}
}
