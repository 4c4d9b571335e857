package mover

import (
	"reflect"
	"slices"
	"testing"

	"stalloc/actors/pool"
	"stalloc/internal/mem"
)

// fall is a run whose load falls from high to low at the third of five looks.
func fall(done ...uint64) run {
	r := run{done: done, end: done[len(done)-1]}
	for _, load := range []mem.Bytes{8, 8, 2, 2, 1} {
		r.load = append(r.load, load*mem.GiB)
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
		{9 * mem.GiB, 4 * mem.GiB, 33}, // not before, though a part of it would fit
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

// TestExpected: the region that was opened longest ago is expected first, and one that was never
// opened before all others.
func TestExpected(t *testing.T) {
	load := func() (now, most mem.Bytes) { return 0, 0 }
	m := New(Env{Load: load, Go: func(func()) {}})
	for _, n := range []uint64{3, 1, 2, 4} {
		m.Closed(n, 0)
	}
	for _, n := range []uint64{2, 3, 1} {
		m.Opened(n, 0)
		m.Closed(n, 0)
	}
	m.Opened(3, 0)
	if got := m.expected(); !slices.Equal(got, []uint64{4, 2, 1}) {
		t.Errorf("expected are %v", got)
	}
}

// looked is a mover of a program whose load a test sets.
type looked struct {
	*Mover
	load, most mem.Bytes
}

func newLooked() *looked {
	l := &looked{}
	l.Mover = New(Env{
		Load: func() (now, most mem.Bytes) {
			most, l.most = l.most, l.load
			return l.load, most
		},
		Go: func(func()) {},
	})
	return l
}

func (l *looked) set(load mem.Bytes) { l.load, l.most = load, max(l.most, load) }

// TestShortRuns: of a region that is opened before the next check all is known: the most of the
// load since it was closed, not before, and that this was over when it was opened.
func TestShortRuns(t *testing.T) {
	l := newLooked()
	l.set(9)
	l.set(1)
	l.Closed(1, 100)
	l.set(5)
	l.set(2)
	l.Closed(2, 110)
	l.regions[1].moves, l.regions[2].moves = true, true
	l.Opened(1, 130)
	l.set(7)
	l.Opened(2, 140)
	for n, want := range map[uint64]run{
		1: {peak: 5, end: 30, done: []uint64{0, 10},
			load: []mem.Bytes{5, 2}},
		2: {peak: 7, end: 30, done: []uint64{0}, load: []mem.Bytes{7}},
	} {
		if got := l.regions[n].before; !reflect.DeepEqual(got, []run{want}) {
			t.Errorf("region %d: %+v, want %+v", n, got, want)
		}
	}
}

// TestLongRuns: what is known of a region that is away for hours takes no more memory than minutes
// do, and what is known of the peak stays.
func TestLongRuns(t *testing.T) {
	l := newLooked()
	l.Closed(1, 0)
	r := l.regions[1]
	for n := range 10 * looks {
		l.set(mem.Bytes(n%3+1) * mem.GiB)
		if n == 5*looks {
			l.set(9 * mem.GiB)
		}
		l.note(uint64(n))
	}
	if len(r.now.load) > looks || len(r.now.done) != len(r.now.load) {
		t.Errorf("%d loads and %d counts are kept", len(r.now.load), len(r.now.done))
	}
	if !slices.IsSorted(r.now.done) {
		t.Error("the counts are not in order")
	}
	if got := begin([]run{r.now}, 8*mem.GiB, mem.GiB); got <= 5*looks || got > 6*looks {
		t.Errorf("it begins after %d, and the peak is at %d", got, 5*looks)
	}
}

// TestForgotten: a region that the pool no longer has is forgotten here, too. Each optimizer has
// regions of its own, and a program may make thousands.
func TestForgotten(t *testing.T) {
	l := newLooked()
	for n := range uint64(9) {
		l.Closed(n, n)
	}
	l.Opened(3, 10)
	if l.lookAt(&pool.Pool{}, 0); len(l.regions) > 0 {
		t.Errorf("%d regions of a pool that has none are kept", len(l.regions))
	}
}
