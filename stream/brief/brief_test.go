package brief

import (
	"math/rand/v2"
	"slices"
	"testing"

	"stalloc/stream/wish"
)

// log is a program's events.
type log struct {
	events []wish.Event
	next   uint64 // address
}

func (l *log) alloc(size uint64) wish.Event {
	l.next += 1 << 30
	e := wish.EventOf(wish.EventMiss, l.next, size, 1)
	l.events = append(l.events, e)
	return e
}

func (l *log) end(kind wish.EventKind, e wish.Event) {
	l.events = append(l.events, wish.EventOf(kind, e.Addr, e.Size(), 1))
}

// TestHistory: what a key tells apart, and what it does not.
func TestHistory(t *testing.T) {
	key := func(events ...wish.Event) int {
		var h History
		for _, e := range events {
			h.Note(e)
		}
		return h.Key(1000)
	}
	a := func(size uint64) wish.Event { return wish.EventOf(wish.EventMiss, 1, size, 1) }
	f := func(kind wish.EventKind, size uint64) wish.Event { return wish.EventOf(kind, 1, size, 1) }
	base := key(a(300), a(400))
	for what, other := range map[string]int{
		"other sizes":                 key(a(301), a(999)),
		"served where it was wished":  key(wish.EventOf(wish.EventHit, 1, 300, 1), a(400)),
		"small requests between":      key(a(300), a(Small), f(wish.EventFree, Small), a(400)),
		"fences that have passed":     key(a(300), f(wish.EventDone, 300), a(400)),
		"another stream and address":  key(wish.EventOf(wish.EventMiss, 77, 300, 2), a(400)),
		"what is longer ago than 16":  key(append(slices.Repeat([]wish.Event{f(wish.EventFree, 300)}, 0), a(300), a(400))...),
		"memory that was given back":  key(a(300), f(wish.EventTrim, 300), a(400)),
		"a late free for a free":      base,
		"the same, noted once before": key(a(300), a(400)),
	} {
		if other != base {
			t.Errorf("%s: key %d, want %d", what, other, base)
		}
	}
	if key(a(300), f(wish.EventFree, 300), a(400)) != key(a(300), f(wish.EventLate, 300), a(400)) {
		t.Error("a free that waits for other streams is no other free")
	}
	for what, other := range map[string]int{
		"a free between":        key(a(300), f(wish.EventFree, 300), a(400)),
		"two of the same size":  key(a(400), a(400)),
		"as large as the next":  key(a(300), a(1000)),
		"one request more":      key(a(200), a(300), a(400)),
		"a free before the two": key(f(wish.EventFree, 300), a(300), a(400)),
	} {
		if other == base {
			t.Errorf("%s: the same key", what)
		}
	}
	long := slices.Repeat([]wish.Event{a(300), f(wish.EventFree, 300)}, Depth)
	if key(long...) != key(append([]wish.Event{a(500), a(500)}, long...)...) {
		t.Error("what came before the latest 16 counts")
	}
}

// step is a forward pass of layers that ask for sizes that never come again: some blocks are kept
// for the backward pass, some are gone at the next line. It returns which were kept.
func (l *log) step(r *rand.Rand, layers int) (kept []bool) {
	size := func() uint64 { return Small + 1 + r.Uint64N(1<<14) }
	var saved []wish.Event
	hold := func(keep bool) wish.Event {
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
		l.end(wish.EventFree, x)
		hold(true)
		hold(true)
		l.end(wish.EventLate, y)
		l.end(wish.EventDone, y)
	}
	for i := range saved {
		e := saved[len(saved)-1-i]
		grad := l.alloc(e.Size() - 100)
		kept = append(kept, false)
		l.end(wish.EventFree, e)
		l.end(wish.EventFree, grad)
	}
	return kept
}

// rightly returns how many requests of a step are foreseen, and how many wrongly held for brief.
func rightly(t *Table, h *History, events []wish.Event, kept []bool) (right, wrong int) {
	for _, e := range events {
		if e.Kind() == wish.EventMiss {
			says := t.Brief(h, e.Size())
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
			t.Errorf("step %d: %d of %d blocks are foreseen, %d wrongly as brief", step, right, len(kept), wrong)
		}
		l.Step(p.events, false)
	}
	var again Learner
	again.Learned(l.Counts())
	if *again.Table() != *l.Table() {
		t.Error("what was learned is not what a later run begins with")
	}
	again.Learned(make([]int8, 7))
	if *again.Table() != *l.Table() {
		t.Error("counts of another length are taken")
	}
}

// TestOnceIsNoRule: a block that was brief twice is held for brief although it was not once.
func TestOnceIsNoRule(t *testing.T) {
	var l Learner
	var h History
	for step, brief := range []bool{true, true, false, true, false, false, false, true, true} {
		var p log
		a := p.alloc(1000)
		if brief {
			p.end(wish.EventFree, a)
		}
		p.end(wish.EventFree, p.alloc(5000))
		if !brief {
			p.end(wish.EventFree, a)
		}
		l.Step(p.events, true)
		want := []bool{true, true, true, true, true, false, false, false, true}[step]
		if got := l.Table().Brief(&h, 1000); got != want {
			t.Errorf("step %d: brief: %v, want %v", step, got, want)
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
		if got := all.Brief(&h, size); got != want {
			t.Errorf("%d units: %v", size, got)
		}
	}
	var l Learner
	var p log
	for range 3 {
		p.end(wish.EventFree, wish.EventOf(wish.EventMiss, 1, 1000, 1))
	}
	l.Step(p.events, false)
	if *l.Table() != (Table{}) {
		t.Error("something was learned")
	}
}
