package actors

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"stalloc/internal/mem"
	"stalloc/stream"
)

// arena is a plan's address range on one stream, and the tape that serves it.
type arena struct {
	lane *lane
	tape *stream.Tape
	base mem.Addr
	size mem.Bytes
	// prologue counts the boundaries that order 0 still spans; then the last
	// order is played at every step.
	prologue int

	mu   sync.Mutex
	pins map[mem.Addr][]mem.StreamID // live slots that other streams use
}

// contains reports whether an address lies in the arena.
func (a *arena) contains(addr mem.Addr) bool { return addr-a.base < mem.Addr(a.size) }

// pin notes that another stream uses the live slot at addr.
func (a *arena) pin(addr mem.Addr, id mem.StreamID) bool {
	port := a.lane.port
	port.Lock()
	ok := a.tape.Pin(addr)
	if ok {
		port.Pinned(a.tape, 1)
	}
	port.Unlock()
	if ok {
		a.mu.Lock()
		if a.pins == nil {
			a.pins = make(map[mem.Addr][]mem.StreamID)
		}
		a.pins[addr] = append(a.pins[addr], id)
		a.mu.Unlock()
	}
	return ok
}

// users takes the streams that used a pinned slot.
func (a *arena) users(addr mem.Addr) []mem.StreamID {
	a.mu.Lock()
	defer a.mu.Unlock()
	users := a.pins[addr]
	delete(a.pins, addr)
	return users
}

// unpin ends the life of a pinned slot: every stream that used it is past it.
func (a *arena) unpin(addr mem.Addr, rounded mem.Bytes) {
	port := a.lane.port
	port.Lock()
	a.tape.Release(addr)
	port.Pinned(a.tape, -1)
	port.Pending(-rounded)
	port.Unlock()
}

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

// dropEmpty takes the retiring arenas whose last block is gone. The port is
// locked.
func (l *lane) dropEmpty() (empty []*arena) {
	kept := l.retiring[:0]
	for _, a := range l.retiring {
		l.port.Settle(a.tape)
		if a.tape.State.LiveN != 0 {
			kept = append(kept, a)
			continue
		}
		l.hits += a.tape.State.Hits
		l.misses += a.tape.State.Misses
		l.resyncs += a.tape.State.Resyncs
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
	if got := a.tape.Alloc(m.asked); got.Slot != stream.None {
		m.addr = got.Addr
		port.HandOut(got.Addr, m.asked)
	}
}

func (s *streamActor) boundary(m *boundary) {
	l := s.lane
	l.port.Lock()
	defer l.port.Unlock()
	o := &m.observed
	o.ordinal = l.ordinal
	o.events, o.lost = l.port.Observed(o.events[:0])
	hits, misses, _ := l.totals()
	o.hits, o.misses = int64(hits-l.lastHits), int64(misses-l.lastMisses)
	l.lastHits, l.lastMisses = hits, misses
	if l.serving != nil {
		o.planned = int64(len(l.serving.tape.Entries)-1) / 2
		l.serving.step()
	}
}

// step goes on with the next tape. The port is locked.
func (a *arena) step() {
	if a.prologue > 0 {
		a.prologue--
	}
	if a.prologue == 0 {
		a.lane.port.Play(a.tape, len(a.tape.Orders)-1)
	}
}
