package brief

import (
	"slices"

	"stalloc/stream/wish"
)

// most bounds a count: two steps in which a key's blocks lived otherwise change what is foreseen.
const most = 2

// Learner learns from steps that have ended which blocks were brief. The zero value knows nothing.
type Learner struct {
	counts  [Keys]int8 // above zero: brief
	history History
	since   []block        // since the latest peak, in their order
	live    map[uint64]int // of these, by address
}

// block is one whose step's peak is still to come, as far as it knows.
type block struct {
	key  int
	gone bool
}

// Step learns from the events of a step. With torn, some are missing before it.
func (l *Learner) Step(events []wish.Event, torn bool) {
	if torn || l.live == nil {
		l.history, l.since, l.live = History{}, l.since[:0], map[uint64]int{}
	}
	peak := peakOf(events)
	for i, e := range events {
		switch e.Kind() {
		case wish.EventHit, wish.EventMiss:
			delete(l.live, e.Addr) // its last fence was waited for
			if e.Size() > Small {
				l.live[e.Addr] = len(l.since)
				l.since = append(l.since, block{key: l.history.Key(e.Size())})
			}
		case wish.EventFree, wish.EventDone:
			if b, ok := l.live[e.Addr]; ok {
				l.since[b].gone = true
				delete(l.live, e.Addr)
			}
		}
		l.history.Note(e)
		if i == peak {
			l.count()
		}
	}
}

// peakOf returns the event behind which the load is the largest; -1: it never is larger than
// at the beginning.
func peakOf(events []wish.Event) int {
	peak, load, highest := -1, int64(0), int64(0)
	for i, e := range events {
		switch size := int64(e.Size()); e.Kind() {
		case wish.EventHit, wish.EventMiss:
			if load += size; load > highest {
				peak, highest = i, load
			}
		case wish.EventFree, wish.EventDone:
			load -= size
		}
	}
	return peak
}

// count takes the blocks in that have come since the latest peak: what is live now is not brief.
func (l *Learner) count() {
	for _, b := range l.since {
		c := &l.counts[b.key]
		if b.gone {
			*c = min(*c+1, most)
		} else {
			*c = max(*c-1, -most)
		}
	}
	l.since = l.since[:0]
	clear(l.live)
}

// Table returns what is foreseen now.
func (l *Learner) Table() *Table {
	t := &Table{}
	for k, c := range l.counts {
		if c > 0 {
			t[k/64] |= 1 << (k % 64)
		}
	}
	return t
}

// Counts returns what was learned, for Learned in a later run.
func (l *Learner) Counts() []int8 { return slices.Clone(l.counts[:]) }

// Learned begins with what an earlier run has learned; of no use are counts of another length.
func (l *Learner) Learned(counts []int8) {
	if len(counts) == Keys {
		copy(l.counts[:], counts)
	}
}
