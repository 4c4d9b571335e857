package stream

import (
	"slices"
)

// A tape can have several orders: a prologue, and one for each kind of step that
// comes again (training, evaluation, another number of microbatches). Two means
// find the right one. At a boundary the kinds that came before tell which is
// next, see Succession. And where a step leaves the order it was thought to
// follow exactly where another order does, it follows that one: the fork of two
// orders is the first request in which they differ, so as long as every request
// was as expected, the fork is the only place where this needs a look.

// fork is where two orders part: the entries of the first requests that differ
// in size, or the ends.
type fork struct{ from, to uint32 }

// none is the fork of orders that are not changed for one another.
var none = fork{None, None}

// forksOf returns the forks of every two orders: forks[i][j].from is an entry of
// order i, .to one of order j. A prologue is served once and takes no part.
func forksOf(orders [][]Entry) [][]fork {
	if len(orders) < 2 {
		return nil
	}
	forks := make([][]fork, len(orders))
	for i := range orders {
		forks[i] = make([]fork, len(orders))
		for j := range orders {
			forks[i][j] = none
			if i != j && !once(orders[i]) && !once(orders[j]) {
				forks[i][j] = forkOf(orders[i], orders[j])
			}
		}
	}
	return forks
}

// once reports whether an order hands out slots that persist, which only a
// prologue does.
func once(order []Entry) bool {
	return slices.ContainsFunc(order, func(e Entry) bool { return e.Size != 0 && e.Offset&EntryPersists != 0 })
}

func forkOf(a, b []Entry) fork {
	i, j := nextAlloc(a, 0), nextAlloc(b, 0)
	for a[i].Size == b[j].Size && a[i].Size != 0 {
		i, j = nextAlloc(a, i+1), nextAlloc(b, j+1)
	}
	return fork{i, j}
}

// Order returns the order that is served: an index of Orders.
func (t *Tape) Order() int { return t.order }

// Play is a step boundary at which another order is served from now on.
func (t *Tape) Play(order int) {
	t.unmarkAll()
	t.order, t.Entries = order, t.Orders[order]
	t.watch()
	t.Step()
}

// turn goes over to the order that explains a request of n rounded bytes which
// is not the next one of this order, if there is one. What is live was handed out
// by the other order and becomes owed.
func (t *Tape) turn(n uint64) bool {
	if t.strayed || t.forks == nil {
		return false
	}
	at := nextAlloc(t.Entries, t.State.Cursor)
	if t.Entries[at].takes(n) {
		return false
	}
	for order, f := range t.forks[t.order] {
		if f.from != at || !t.Orders[order][f.to].takes(n) {
			continue
		}
		t.Play(order)
		t.jump(f.to)
		t.State.Resyncs++
		return true
	}
	return false
}

// Succession learns which order follows which. A kind of step that comes every
// few steps is foreseen from its second period on.
type Succession struct {
	past []int8
}

// succession is how many steps it looks back: several periods of an evaluation
// every hundred steps.
const succession = 512

// Ended notes the order that a step turned out to follow.
func (s *Succession) Ended(order int) {
	if len(s.past) == succession {
		s.past = s.past[:copy(s.past, s.past[succession/2:])]
	}
	s.past = append(s.past, int8(min(order, orderLimit-1)))
}

// Next guesses the next order: the one that most often followed where the recent
// past was most like now. Where nothing is known it is the most frequent one.
func (s *Succession) Next() int {
	now, best := len(s.past), 1
	var followed [orderLimit]int // by order, where the past was like now for best steps
	for then := now - 1; then >= best; then-- {
		like := 0
		for like < then && s.past[then-1-like] == s.past[now-1-like] {
			like++
		}
		if like > best {
			best, followed = like, [orderLimit]int{}
		}
		if like == best {
			followed[s.past[then]]++
		}
	}
	var count [orderLimit]int
	for _, order := range s.past {
		count[order]++
	}
	next := 0
	for order := range orderLimit {
		if f, g := followed[order], followed[next]; f > g || f == g && count[order] > count[next] {
			next = order
		}
	}
	return next
}

// orderLimit is one more than the largest order that is told apart.
const orderLimit = 16
