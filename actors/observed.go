package actors

import (
	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/stream/wish"
)

// lasting is a request of a step and how long its block's bytes were taken, in events.
// A block that other streams used ends where its fences were seen to pass.
type lasting struct {
	size     mem.Bytes // rounded
	at       mem.Addr
	from, to mem.Tick // to < 0: it outlived the step
	late     bool     // other streams used the block
}

// spaceKey names a space of the range: a stream's for large or for small requests.
type spaceKey struct {
	stream mem.StreamID
	small  bool
}

// spaceStep is what a step asked of one space.
type spaceStep struct {
	spaceKey
	requests []lasting
	gaps     []engine.Range // at the end of the step
	events   mem.Tick
	hits     int // requests that were served where they were wished
}

// lived is a block of the step: its space and number there.
type lived struct {
	of *spaceStep
	n  int
}

// spaces sorts the events of a step by the spaces they concern.
func (m *stepEnded) spaces(small mem.Bytes) []*spaceStep {
	var steps []*spaceStep
	byKey := map[spaceKey]*spaceStep{}
	live := map[uint64]lived{}
	tick := mem.Tick(0)
	for _, e := range m.events {
		if e.Kind() != wish.EventDone && e.Kind() != wish.EventTrim {
			tick++
		}
		switch x, known := live[e.Addr]; e.Kind() {
		case wish.EventHit, wish.EventMiss:
			if known { // its last fence was waited for
				x.of.requests[x.n].to = tick
			}
			size := mem.Bytes(e.Size()) * mem.Grain
			key := spaceKey{m.streams[e.Stream()], size <= small}
			s := byKey[key]
			if s == nil {
				s = &spaceStep{spaceKey: key, gaps: m.gaps[key]}
				byKey[key] = s
				steps = append(steps, s)
			}
			if e.Kind() == wish.EventHit {
				s.hits++
			}
			live[e.Addr] = lived{s, len(s.requests)}
			s.requests = append(s.requests, lasting{size: size, at: mem.Addr(e.Addr), from: tick, to: -1})
		case wish.EventLate:
			if known {
				x.of.requests[x.n].late = true
			}
		case wish.EventFree, wish.EventDone:
			if known && (e.Kind() == wish.EventFree || x.of.requests[x.n].late) {
				x.of.requests[x.n].to = tick
				delete(live, e.Addr)
			}
		}
	}
	for _, s := range steps {
		s.events = tick + 1
	}
	return steps
}
