package planner

import (
	"slices"
	"testing"

	"stalloc/actors/step"
	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream/schedule"
)

const base = mem.Addr(1) << 40

// gap is a free range, in MiB from the window's beginning.
func gap(at, size mem.Bytes) engine.Range {
	return engine.Range{Addr: base + mem.Addr(at*mem.MiB), Size: size * mem.MiB}
}

// placed returns where entries are planned, in MiB; -1: nowhere.
func placed(list []schedule.Entry) (at []int) {
	for _, e := range list {
		if e.Place() == 0 {
			at = append(at, -1)
		} else {
			at = append(at, int(e.Place()*uint64(mem.Grain)/uint64(mem.MiB)))
		}
	}
	return at
}

// TestPlace: requests lie in the gaps, over each other where they do not live at once. Where they
// do not fit each goes where it lay, but for those that lay in no gap.
func TestPlace(t *testing.T) {
	at := func(s plan.Step, places ...mem.Bytes) plan.Step {
		for i := range s.Requests {
			s.Requests[i].At = mem.Offset(places[i] * mem.MiB)
		}
		return s
	}
	late := at(of(4, 4, 4), 2, 6, 50)
	late.Requests[1].Done++
	for name, c := range map[string]struct {
		gaps []engine.Range
		step plan.Step
		end  mem.Tick
		want []int // nil: none
	}{
		"no gap": {nil, of(1), 2, nil},
		"one gap": {[]engine.Range{gap(2, 12)}, at(of(4, 4, 4), 90, 91, 92), 6,
			[]int{2, 6, 10}},
		"does not fit": {[]engine.Range{gap(2, 10)}, at(of(4, 4, 4), 2, 6, 50), 6,
			[]int{2, 6, -1}},
		"late, not fit": {[]engine.Range{gap(2, 10)}, late, 7, nil},
		"beside a block": {[]engine.Range{gap(2, 4), gap(8, 4)}, at(of(4, 4), 90, 91), 4,
			[]int{2, 8}},
	} {
		a := &step.ArenaStep{Step: c.step, Gaps: c.gaps, End: c.end}
		got := placed(place(a, base))
		sorted := slices.Sorted(slices.Values(got))
		if want := slices.Sorted(slices.Values(c.want)); !slices.Equal(sorted, want) {
			t.Errorf("%s: planned at %v, want %v", name, got, c.want)
		}
	}
	small := &step.ArenaStep{Arena: step.Arena{Small: true}, Step: at(of(1, 1), 3, 90), End: 4,
		Gaps: []engine.Range{gap(2, 4)}}
	if got := placed(place(small, base)); !slices.Equal(got, []int{3, 90}) {
		t.Errorf("small requests are planned at %v, want where they lay", got)
	}
}

// TestPlaceLoaded: a step of an earlier run is placed if it fits, and never where it lay then.
func TestPlaceLoaded(t *testing.T) {
	now := &step.ArenaStep{Gaps: []engine.Range{gap(2, 10)}}
	if got := placed(placeLoaded(of(4, 4), now, base)); len(got) != 2 {
		t.Errorf("planned at %v", got)
	}
	if got := placeLoaded(of(4, 4, 4), now, base); got != nil {
		t.Errorf("what does not fit is planned at %v", placed(got))
	}
}

// TestWithin: all of a block is in one gap.
func TestWithin(t *testing.T) {
	gaps := []engine.Range{gap(10, 4), gap(20, 2), gap(22, 6)}
	for _, c := range []struct {
		at, size mem.Bytes
		want     bool
	}{
		{10, 4, true}, {12, 2, true}, {13, 2, false}, {9, 2, false}, {0, 1, false},
		{20, 2, true}, {20, 3, false}, {22, 6, true}, {28, 1, false}, {100, 1, false},
	} {
		if got := within(gaps, base+mem.Addr(c.at*mem.MiB), c.size*mem.MiB); got != c.want {
			t.Errorf("%d MiB at %d: %v", c.size, c.at, got)
		}
	}
	if within(nil, base, mem.MiB) {
		t.Error("within no gap")
	}
}
