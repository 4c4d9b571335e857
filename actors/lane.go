package actors

import (
	"fmt"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"stalloc/stream"
)

// lane is the state of one stream that outlives its actor.
type lane struct {
	port    Port
	ordinal int
	pid     *actor.PID

	serving  *arena
	retiring []*arena
	active   atomic.Bool // serving != nil, to be read without the port's lock
	// Totals of arenas that are gone.
	hits, misses, resyncs uint64
	// Totals at the last boundary, to tell what the step did.
	lastHits, lastMisses uint64
}

// totals returns hits, misses and resyncs of all arenas. The port is locked.
func (l *lane) totals() (hits, misses, resyncs uint64) {
	hits, misses, resyncs = l.hits, l.misses, l.resyncs
	add := func(a *arena) {
		hits += a.tape.State.Hits
		misses += a.tape.State.Misses
		resyncs += a.tape.State.Resyncs
	}
	if l.serving != nil {
		add(l.serving)
	}
	for _, a := range l.retiring {
		add(a)
	}
	return hits, misses, resyncs
}

// keep adds the counts of a tape that goes to the totals.
func (l *lane) keep(s *stream.State) {
	l.hits += s.Hits
	l.misses += s.Misses
	l.resyncs += s.Resyncs
}

// dropEmpty takes the retiring arenas whose last block is gone. The port is
// locked.
func (l *lane) dropEmpty() (empty []*arena) {
	kept := l.retiring[:0]
	for _, a := range l.retiring {
		if a.tape.State.LiveN != 0 {
			kept = append(kept, a)
			continue
		}
		l.keep(a.tape.State)
		empty = append(empty, a)
	}
	clear(l.retiring[len(kept):])
	l.retiring = kept
	return empty
}

// streamActor is the slow side of one stream.
type streamActor struct{ lane *lane }

// Receive implements actor.Actor. A panic answers the caller and then goes on
// to the supervisor, which restarts the actor over the same lane.
func (s *streamActor) Receive(ctx actor.Context) {
	q, ok := ctx.Message().(question)
	if !ok {
		return
	}
	defer func() {
		r := recover()
		if r == nil {
			q.slot().reply(nil)
			return
		}
		q.slot().reply(fmt.Errorf("stream %d: %v", s.lane.ordinal, r))
		panic(r)
	}()
	switch m := q.(type) {
	case *serveRequest:
		s.serve(m)
	case *boundary:
		s.boundary(m)
	}
}

func (s *streamActor) serve(m *serveRequest) {
	port := s.lane.port
	port.Lock()
	defer port.Unlock()
	a := s.lane.serving
	if a == nil {
		return
	}
	order := a.tape.Order()
	got := a.tape.Alloc(m.asked)
	if a.tape.Order() != order {
		port.Turned(a.tape)
	}
	if got.Slot != stream.None {
		m.addr = got.Addr
		port.HandOut(got.Addr, m.asked)
	}
}

func (s *streamActor) boundary(m *boundary) {
	l := s.lane
	l.port.Lock()
	defer l.port.Unlock()
	l.port.Settle()
	o := &m.observed
	o.ordinal = l.ordinal
	o.events, o.lost = l.port.Observed(o.events[:0])
	hits, misses, _ := l.totals()
	o.hits, o.misses = int64(hits-l.lastHits), int64(misses-l.lastMisses)
	l.lastHits, l.lastMisses = hits, misses
	if a := l.serving; a != nil {
		o.part, o.order = a.part, a.tape.Order()
		o.arenas += a.bytes()
		a.step()
	}
	for _, a := range l.retiring {
		o.arenas += a.bytes()
	}
}
