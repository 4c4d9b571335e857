package shortlived

import (
	"stalloc/stream/schedule"
)

// most bounds a count: two steps in which a key's blocks lived otherwise change what is foreseen.
const most = 2

// Learner learns from steps that have ended which blocks were short-lived. The zero value knows nothing.
type Learner struct {
	counts  [Keys]int8 // above zero: short-lived
	history History
	reader  schedule.Reader
	since   []block     // since the latest peak, in their order
	live    map[int]int // of these, by the reader's number
}

// block is one whose step's peak is still to come, as far as it knows.
type block struct {
	key  int
	gone bool
}

// Step learns from the events of a step. With torn, some are missing before it.
func (l *Learner) Step(events []schedule.Event, torn bool) {
	if torn || l.live == nil {
		l.history, l.reader, l.since, l.live = History{}, schedule.Reader{}, l.since[:0], map[int]int{}
	}
	peak, last := peakOf(events), -1
	for i, line := range l.reader.Read(events) {
		switch e := line.Event; line.What {
		case schedule.Requested:
			if e.Size() > Small {
				l.live[line.Block] = len(l.since)
				l.since = append(l.since, block{key: l.history.Key(e.Size())})
			}
		case schedule.Freed, schedule.Done:
			if b, ok := l.live[line.Block]; ok {
				l.since[b].gone = true
				delete(l.live, line.Block)
			}
		}
		if i != last { // two lines may come of one event
			l.history.Note(line.Event)
			last = i
		}
		if i == peak && line.What == schedule.Requested {
			l.count()
		}
	}
}

// peakOf returns the event behind which the load is the largest; -1: it never is larger than
// at the beginning.
func peakOf(events []schedule.Event) int {
	peak, load, highest := -1, int64(0), int64(0)
	for i, e := range events {
		switch size := int64(e.Size()); e.Kind() {
		case schedule.EventHit, schedule.EventMiss:
			if load += size; load > highest {
				peak, highest = i, load
			}
		case schedule.EventFree, schedule.EventDone:
			load -= size
		}
	}
	return peak
}

// count takes the blocks in that have come since the latest peak: what is live now is not short-lived.
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
