package mover

import (
	"slices"
	"testing"
	"time"

	"stalloc/actors/pool"
	"stalloc/internal/mem"
	"stalloc/plan/residency"
)

// fall is a run whose load falls from high to low at the third of five looks.
func fall(done ...uint64) run {
	r := run{done: done}
	for i, load := range []mem.Bytes{8, 8, 2, 2, 1} {
		r.load = append(r.load, residency.Load{From: residency.Nanos(i) * 1e9,
			Bytes: load * mem.GiB})
	}
	return r
}

// TestBegin: a region comes back as soon as the load has fallen in each of the last runs, by what
// the program had asked for and freed by then; where it never leaves room, at the end.
func TestBegin(t *testing.T) {
	a, b := fall(10, 20, 30, 40, 50), fall(11, 21, 33, 41, 51)
	for _, x := range []struct {
		limit, size mem.Bytes
		want        uint64
	}{
		{10 * mem.GiB, mem.GiB, 11},    // it always fits
		{8 * mem.GiB, 4 * mem.GiB, 33}, // once the load is low, in the later of the two
		{4 * mem.GiB, 4 * mem.GiB, 51}, // nowhere
	} {
		if got := begin([]run{a, b}, x.limit, x.size); got != x.want {
			t.Errorf("%v of %v: it begins after %d, want %d", x.size, x.limit, got, x.want)
		}
	}
	if got := begin(nil, mem.GiB, mem.GiB); got != 0 {
		t.Errorf("nothing was seen, and it begins after %d", got)
	}
}

// TestExpected: the region that was opened least lately is expected first, and one that was never
// opened before all others.
func TestExpected(t *testing.T) {
	still := pool.Clock{Now: func() time.Duration { return 0 }}
	load := func() (now, most mem.Bytes) { return 0, 0 }
	m := New(Env{Clock: still, Load: load, Go: func(func()) {}})
	for _, n := range []uint64{3, 1, 2, 4} {
		m.Closed(n, 0)
	}
	for _, n := range []uint64{2, 3, 1} {
		m.Opened(n)
		m.Closed(n, 0)
	}
	m.Opened(3)
	if got := m.expected(); !slices.Equal(got, []uint64{4, 2, 1}) {
		t.Errorf("expected are %v", got)
	}
}
