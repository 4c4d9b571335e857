package shortlived

import (
	"math/rand/v2"
	"slices"
	"testing"

	"stalloc/stream/schedule"
)

// log is a program's events.
type log struct {
	events []schedule.Event
	next   uint64 // address
}

func (l *log) alloc(size uint64) schedule.Event {
	l.next += 1 << 30
	e := schedule.EventOf(schedule.EventMiss, l.next, size, 1)
	l.events = append(l.events, e)
	return e
}

func (l *log) end(kind schedule.EventKind, e schedule.Event) {
	l.events = append(l.events, schedule.EventOf(kind, e.Addr, e.Size(), 1))
}

// TestHistory: what a key tells apart, and what it does not.
func TestHistory(t *testing.T) {
	key := func(events ...schedule.Event) int {
		var h History
		for _, e := range events {
			h.Note(e)
		}
		return h.Key(1000)
	}
	a := func(size uint64) schedule.Event { return schedule.EventOf(schedule.EventMiss, 1, size, 1) }
	f := func(kind schedule.EventKind, size uint64) schedule.Event { return schedule.EventOf(kind, 1, size, 1) }
	base := key(a(300), a(400))
	for what, other := range map[string]int{
		"other sizes":                  key(a(301), a(999)),
		"served at its planned offset": key(schedule.EventOf(schedule.EventHit, 1, 300, 1), a(400)),
		"small requests between":       key(a(300), a(Small), f(schedule.EventFree, Small), a(400)),
		"fences that have passed":      key(a(300), f(schedule.EventDone, 300), a(400)),
		"another stream and address":   key(schedule.EventOf(schedule.EventMiss, 77, 300, 2), a(400)),
		"memory that was given back":   key(a(300), f(schedule.EventTrim, 300), a(400)),
		"the same, noted once before":  key(a(300), a(400)),
	} {
		if other != base {
			t.Errorf("%s: key %d, want %d", what, other, base)
		}
	}
	if key(a(300), f(schedule.EventFree, 300), a(400)) != key(a(300), f(schedule.EventLate, 300), a(400)) {
		t.Error("a free that waits for other streams is no other free")
	}
	for what, other := range map[string]int{
		"a free between":        key(a(300), f(schedule.EventFree, 300), a(400)),
		"two of the same size":  key(a(400), a(400)),
		"as large as the next":  key(a(300), a(1000)),
		"one request more":      key(a(200), a(300), a(400)),
		"a free before the two": key(f(schedule.EventFree, 300), a(300), a(400)),
	} {
		if other == base {
			t.Errorf("%s: the same key", what)
		}
	}
	// The request that is asked about is one of them.
	for ago := 1; ago <= 2*Depth; ago++ {
		since := slices.Repeat([]schedule.Event{f(schedule.EventFree, 300)}, ago-1)
		request, free := key(append([]schedule.Event{a(300), a(300)}, since...)...), key(append([]schedule.Event{a(300), f(schedule.EventFree, 300)}, since...)...)
		if (request != free) != (ago < Depth) {
			t.Errorf("what was done %d ago counts: %v, of the latest %d it does", ago, request != free, Depth)
		}
	}
}

// step is a forward pass of layers that ask for sizes that never come again: some blocks are kept
// for the backward pass, some are gone at the next line. It returns which were kept.
func (l *log) step(r *rand.Rand, layers int) (kept []bool) {
	size := func() uint64 { return Small + 1 + r.Uint64N(1<<14) }
	var saved []schedule.Event
	hold := func(keep bool) schedule.Event {
		e := l.alloc(size())
		if kept = append(kept, keep); keep {
			saved = append(saved, e)
		}
		return e
	}
	for range layers {
		x := hold(false)
		hold(true)
		y := l.alloc(x.Size() + 1)
		kept = append(kept, false)
		l.end(schedule.EventFree, x)
		hold(true)
		hold(true)
		l.end(schedule.EventLate, y)
		l.end(schedule.EventDone, y)
	}
	for i := range saved {
		e := saved[len(saved)-1-i]
		grad := l.alloc(e.Size() - 100)
		kept = append(kept, false)
		l.end(schedule.EventFree, e)
		l.end(schedule.EventFree, grad)
	}
	return kept
}

// rightly returns how many requests of a step are foreseen, and how many wrongly taken for short-lived.
func rightly(t *Table, h *History, events []schedule.Event, kept []bool) (right, wrong int) {
	for _, e := range events {
		if e.Kind() == schedule.EventMiss {
			says := t.ShortLived(h, e.Size())
			if says != kept[0] {
				right++
			} else if says {
				wrong++
			}
			kept = kept[1:]
		}
		h.Note(e)
	}
	return right, wrong
}

// TestLearns: behind one step nearly all blocks of the next are foreseen, though no size comes twice.
func TestLearns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	var l Learner
	var h History
	for step := range 4 {
		var p log
		kept := p.step(r, 24)
		right, wrong := rightly(l.Table(), &h, p.events, kept)
		// The backward pass's blocks come behind the peak, and what they are is known a step later.
		least := []float64{0, 0.5, 0.95, 0.95}[step]
		if share := float64(right) / float64(len(kept)); share < least || wrong > len(kept)/20 {
			t.Errorf("step %d: %d of %d blocks are foreseen, %d wrongly as short-lived", step, right, len(kept), wrong)
		}
		l.Step(p.events, false)
	}
}

// TestOnceIsNoRule: a block that was short-lived twice is taken for short-lived although it was not once.
func TestOnceIsNoRule(t *testing.T) {
	var l Learner
	var h History
	for step, shortLived := range []bool{true, true, false, true, false, false, false, true, true} {
		var p log
		a := p.alloc(1000)
		if shortLived {
			p.end(schedule.EventFree, a)
		}
		p.end(schedule.EventFree, p.alloc(5000))
		if !shortLived {
			p.end(schedule.EventFree, a)
		}
		l.Step(p.events, true)
		want := []bool{true, true, true, true, true, false, false, false, true}[step]
		if got := l.Table().ShortLived(&h, 1000); got != want {
			t.Errorf("step %d: short-lived: %v, want %v", step, got, want)
		}
	}
}

// TestBounds: small and large requests are not foreseen, and a step of frees alone teaches nothing.
func TestBounds(t *testing.T) {
	var all Table
	for i := range all {
		all[i] = ^uint64(0)
	}
	var h History
	for size, want := range map[uint64]bool{1: false, Small: false, Small + 1: true, Large - 1: true, Large: false, 1 << 30: false} {
		if got := all.ShortLived(&h, size); got != want {
			t.Errorf("%d units: %v", size, got)
		}
	}
	var l Learner
	var p log
	for range 3 {
		p.end(schedule.EventFree, schedule.EventOf(schedule.EventMiss, 1, 1000, 1))
	}
	l.Step(p.events, false)
	if *l.Table() != (Table{}) {
		t.Error("something was learned")
	}
}
