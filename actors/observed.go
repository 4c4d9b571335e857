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

// spaceStep is what a step, or several, asked of one space.
type spaceStep struct {
	spaceKey
	requests []lasting
	gaps     []engine.Range // at the end of the step
	events   mem.Tick
	hits     int // requests that were served where they were wished
}

// lived is a block: its space and number there.
type lived struct {
	of *spaceStep
	n  int
}

// reading sorts the events of a step, or of several, by the spaces they concern.
type reading struct {
	tick   mem.Tick     // events so far
	spaces []*spaceStep // in the order of their first requests
	live   map[uint64]lived
}

// spaces reads a step for itself.
func (m *stepEnded) spaces(small mem.Bytes) []*spaceStep {
	r := reading{live: map[uint64]lived{}}
	r.read(m, small, true)
	for _, s := range r.spaces {
		s.gaps, s.events = m.gaps[s.spaceKey], r.tick+1
	}
	return r.spaces
}

// read goes on with a step: with its requests and frees, or only with the frees.
func (r *reading) read(m *stepEnded, small mem.Bytes, requests bool) {
	for _, e := range m.events {
		r.tick++
		switch x, known := r.live[e.Addr]; e.Kind() {
		case wish.EventHit, wish.EventMiss:
			if known { // its last fence was waited for
				x.of.requests[x.n].to = r.tick
				delete(r.live, e.Addr)
			}
			if requests {
				r.request(m, e, small)
			}
		case wish.EventLate:
			if known {
				x.of.requests[x.n].late = true
			}
		case wish.EventFree, wish.EventDone:
			if known && (e.Kind() == wish.EventFree || x.of.requests[x.n].late) {
				x.of.requests[x.n].to = r.tick
				delete(r.live, e.Addr)
			}
		}
	}
}

func (r *reading) request(m *stepEnded, e wish.Event, small mem.Bytes) {
	size := mem.Bytes(e.Size()) * mem.Grain
	s := r.space(spaceKey{m.streams[e.Stream()], size <= small})
	if e.Kind() == wish.EventHit {
		s.hits++
	}
	r.live[e.Addr] = lived{s, len(s.requests)}
	s.requests = append(s.requests, lasting{size: size, at: mem.Addr(e.Addr), from: r.tick, to: -1})
}

// space returns what was asked of a space, of which there are few.
func (r *reading) space(key spaceKey) *spaceStep {
	for _, s := range r.spaces {
		if s.spaceKey == key {
			return s
		}
	}
	s := &spaceStep{spaceKey: key}
	r.spaces = append(r.spaces, s)
	return s
}
