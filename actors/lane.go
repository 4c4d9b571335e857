package actors

import (
	"fmt"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream"
	"stalloc/stream/wish"
)

// lane is the state of one stream that outlives its actor.
type lane struct {
	port    Port
	ordinal int
	pid     *actor.PID

	arena   *arena       // where plans are laid, nil before the first
	serving *arena       // the same, while it serves
	plan    *plan.Stream // to be served again at the next boundary, nil: none
	busy    bool         // it was to be served again, and its pages were still in use
	former  []*arena     // not grown in place: they hold what persisted in them
	active  atomic.Bool  // serving != nil, to be read without the port's lock
	tuning  stream.Tuning
	latest  *stream.Tape // the last one that was laid
	// What the tape wants to hear of the blocks that the pool served, under the
	// port's lock, and their number.
	tickets map[mem.Addr]stream.Ticket
	waiting atomic.Int32
	wishes  [2]wish.Tape // of large and of small requests, under the port's lock
	// Totals of arenas that are gone.
	hits, misses, resyncs uint64
	// The row of misses, see lost, and the tape's hits at the last of them.
	row, rowBytes float64
	rowHits       uint64
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
	if l.arena != nil {
		add(l.arena)
	}
	for _, a := range l.former {
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

// A step is lost to its plan when so many requests in a row, of so many bytes
// together, were not on the tape. The idle arena beside a pool that serves them
// would cost far more than mapping a few of its pages again at the boundary. Some
// requests are the same in any step, so a hit does not end the row but makes up
// for a part of a miss.
const (
	heals     = 4 // hits make up for a miss
	lostAfter = 24
	lostBytes = 64 * mem.MiB
)

// lost counts a miss of the tape and reports whether the step is lost. hits is
// the tape's count, to tell how many there were since the last miss. The port is
// locked.
func (l *lane) lost(hits uint64, size mem.Bytes) bool {
	if healed := float64(hits-l.rowHits) / heals; healed >= l.row {
		l.row, l.rowBytes = 0, 0
	} else {
		l.rowBytes *= 1 - healed/l.row
		l.row -= healed
	}
	l.rowHits = hits
	l.row++
	l.rowBytes += float64(size)
	return l.row >= lostAfter && l.rowBytes >= float64(lostBytes)
}

// unexpected reports whether a request was neither served nor one that the tape
// leaves to the pool.
func unexpected(got *stream.Served) bool {
	return got.Slot == stream.None && !got.Pool && !got.Guest
}

// idle returns how many bytes of the arena that is served no block occupies.
func (l *lane) idle() mem.Bytes {
	l.port.Lock()
	defer l.port.Unlock()
	if l.serving == nil {
		return 0
	}
	return l.serving.bytes() - l.serving.tape.Occupied()
}

// hold keeps the ticket of a block that the pool served.
func (l *lane) hold(addr mem.Addr, ticket stream.Ticket) {
	l.port.Lock()
	defer l.port.Unlock()
	if l.tickets == nil {
		l.tickets = make(map[mem.Addr]stream.Ticket)
	}
	l.tickets[addr] = ticket
	l.waiting.Store(int32(len(l.tickets)))
}

// ended tells the tape that a block of the pool is freed, if it wants to know.
func (l *lane) ended(addr mem.Addr) {
	l.port.Lock()
	defer l.port.Unlock()
	ticket, ok := l.tickets[addr]
	if !ok {
		return
	}
	delete(l.tickets, addr)
	l.waiting.Store(int32(len(l.tickets)))
	if l.serving != nil {
		l.serving.tape.Ended(ticket)
	}
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
		if m, ok := q.(*serveRequest); ok {
			s.takeBack(m)
		}
		q.slot().reply(fmt.Errorf("stream %d: %v", s.lane.ordinal, r))
		panic(r)
	}()
	switch m := q.(type) {
	case *serveRequest:
		s.serve(m)
	case *settleRequest:
		s.settle()
	case *boundary:
		s.boundary(m)
	}
}

func (s *streamActor) settle() {
	s.lane.port.Lock()
	defer s.lane.port.Unlock()
	s.lane.port.Settle()
}

func (s *streamActor) serve(m *serveRequest) {
	port := s.lane.port
	port.Lock()
	defer port.Unlock()
	a := s.lane.serving
	if a == nil {
		return
	}
	if m.lacks = a.tape.Lacks(m.asked); m.lacks > 0 {
		return
	}
	order := a.tape.Order()
	got := a.tape.Alloc(m.asked)
	m.lost = unexpected(&got) && s.lane.lost(a.tape.State.Hits, mem.Round(m.asked))
	if a.tape.Order() != order {
		port.Turned(a.tape)
	}
	m.ticket = got.Ticket
	if got.Slot != stream.None || got.Guest {
		m.addr = got.Addr
		port.HandOut(got.Addr, m.asked)
	}
}

// takeBack frees the slot of a request that failed after it was served: nobody
// will hear of it.
func (s *streamActor) takeBack(m *serveRequest) {
	if m.addr == 0 {
		return
	}
	s.lane.port.Lock()
	defer s.lane.port.Unlock()
	if a := s.lane.serving; a != nil {
		a.tape.Free(m.addr)
	}
	m.addr = 0
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
	for i := range l.wishes {
		if l.wishes[i].State != nil {
			l.wishes[i].Boundary()
		}
	}
	o.hits, o.misses = int64(hits-l.lastHits), int64(misses-l.lastMisses)
	l.lastHits, l.lastMisses = hits, misses
	if a := l.serving; a != nil {
		o.part, o.order = a.part, a.tape.Order()+a.cut
		o.arenas += a.bytes()
		a.step()
	} else if l.plan != nil {
		o.part, o.gone = l.plan, !l.busy
	}
	for _, a := range l.former {
		o.arenas += a.bytes()
	}
}
