package pool

import (
	"errors"
	"time"

	"stalloc/actors/inline"
	"stalloc/actors/step"
	"stalloc/engine"
	"stalloc/engine/order"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// Request asks for a block.
type Request struct {
	inline.Answer
	Size    mem.Bytes // asked for
	Stream  mem.StreamID
	Private uint64   // the number of a private pool; 0: the default pool
	Cursor  int      // that of small or of large requests
	Planned mem.Addr // where the block is to lie if it is free there; 0: anywhere
	// CannotWait: the thread holds something that others may need while it waits.
	CannotWait bool
	Exact      bool // it lies at Planned, or nowhere

	Addr  mem.Addr // answer
	Again bool     // answer: ask again in PollInterval

	number uint64 // 0: it is new
	last   bool   // it would be refused, did it not wait
}

// PollInterval is how long a thread sleeps before a request that waits comes again.
const PollInterval = time.Duration(order.PollInterval)

// MustSleep reports whether the thread is to let some time pass before it asks again.
func (m *Request) MustSleep() bool { return !m.CannotWait || m.last }

// Free gives a block back.
type Free struct {
	inline.Answer
	Addr mem.Addr
	// Deferred: the program freed it some time ago, so streams that used it may be gone.
	Deferred bool
	Freed    engine.Block // answer
}

// mayServe says why a request cannot be served, whatever memory there is.
func (p *Pool) mayServe(m *Request) error {
	switch {
	case p.state == retired:
		return ErrRetired
	case p.sleeps(m.Private):
		return ErrAsleep
	case p.isClosed(m.Private):
		return ErrNotOpen
	}
	return p.behindCopies(m.Private, m.Stream)
}

func (p *Pool) serve(m *Request) error {
	if err := p.mayServe(m); err != nil {
		p.order.Drop(m.number)
		return err
	}
	if m.Size >= Large {
		p.Leave()
	}
	p.Settle()
	if m.number == 0 {
		p.requests++
		m.number = p.requests
	}
	p.waited = m.last
	ev := engine.Event{Kind: engine.EvAlloc, Req: m.number, Asked: m.Size,
		Stream: m.Stream, Pool: m.Private, Addr: m.Planned, Exact: m.Exact,
		Persistent: p.Host.Persistent(m.Stream), Means: p.means(!m.CannotWait),
		Around: engine.Around{CanWait: !m.CannotWait, Capturing: p.Host.Captures() > 0}}
	answer, err := p.run(ev)
	for errors.Is(err, driver.ErrOutOfMemory) && p.afterRoom(&ev, err) {
		answer, err = p.run(ev)
	}
	if err != nil {
		p.forgetMoved()
		return err
	}
	if m.Again = answer.Kind == engine.OpWait; m.Again {
		m.last = answer.Reason == engine.RefusedDevice
		return nil
	}
	if p.waited {
		p.Retries.Add(1)
	}
	p.served(m, answer)
	return nil
}

// ServeAt serves an Exact request. What lies there may wait for other streams.
func (p *Pool) ServeAt(m *Request) error {
	if !p.policy.Indexed() {
		return ErrUnknown // GMLake has no way to place a block
	}
	err := p.serve(m)
	if err == nil || p.state >= retired || p.sleeps(m.Private) {
		return err
	}
	if p.Poll(); p.sync() == nil {
		p.Poll()
	}
	return p.serve(m)
}

// Capture notes that a graph uses a private pool.
func (p *Pool) Capture(private uint64) error {
	_, err := p.run(engine.Event{Kind: engine.EvCapture, Pool: private})
	return err
}

func (p *Pool) served(m *Request, grant engine.Op) {
	if m.Addr = grant.Addr; m.Private != 0 {
		return
	}
	kind := schedule.EventMiss
	if m.Planned != 0 && m.Addr == m.Planned {
		kind = schedule.EventHit
	}
	p.Host.Count(m.Stream, m.Cursor, kind == schedule.EventHit)
	p.note(kind, m.Addr, grant.Size, m.Stream)
}

func (p *Pool) note(kind schedule.EventKind, at mem.Addr, size mem.Bytes, id mem.StreamID) {
	p.Host.Note(schedule.EventOf(kind, uint64(at), uint64(size/mem.Grain), p.policy.Ordinal(id)))
}

func (p *Pool) free(m *Free) error {
	b, ok := p.policy.Lookup(m.Addr)
	if !ok || b.Addr != m.Addr || b.Pending {
		return ErrUnknown
	}
	awake := p.unexport(m.Addr)
	_, err := p.run(engine.Event{Kind: engine.EvFree, Addr: m.Addr,
		Around: engine.Around{Deferred: m.Deferred, Idle: p.sleeps(b.Pool) && !awake}})
	if err != nil {
		return err
	}
	m.Freed = b
	kind := schedule.EventFree
	if now, still := p.policy.Lookup(m.Addr); still && now.Pending {
		kind = schedule.EventLate
	}
	if b.Pool == 0 {
		p.note(kind, m.Addr, b.Size, b.Stream)
	}
	if p.state == retired {
		p.freedRetired(b.Size)
	}
	return nil
}

// Use says that another stream uses the block at addr.
func (p *Pool) Use(addr mem.Addr, id mem.StreamID) error {
	_, err := p.run(engine.Event{Kind: engine.EvUseStream, Addr: addr, Stream: id})
	return err
}

// Find returns the live block that contains addr.
func (p *Pool) Find(addr mem.Addr) (engine.Block, error) {
	b, ok := p.policy.Lookup(addr)
	if !ok {
		b, ok = p.policy.Within(addr)
	}
	if !ok || b.Pending {
		return engine.Block{}, ErrUnknown
	}
	return b, nil
}

// EndStep ends a step of the policy, and returns what the planner is to know of it; nil: nothing.
// Streams that hold nothing are forgotten, but for those to keep.
func (p *Pool) EndStep(
	keep func(mem.StreamID) bool,
) (ended *step.Observed, gone []mem.StreamID, err error) {
	if !p.sleeps(0) { // else what a boundary would do to memory can wait
		_, err = p.run(engine.Event{Kind: engine.EvBoundary})
		ended = p.observed()
	}
	return ended, p.policy.Forget(keep), err
}

// observed takes what the log says of a step that has ended, and where its memory was then.
func (p *Pool) observed() *step.Observed {
	s := p.policy.Stats()
	o := &step.Observed{
		Streams: map[uint16]mem.StreamID{}, Gaps: map[step.Arena][]engine.Range{},
		Load: s.Load, Asleep: p.dev.Asleep(), Reserved: p.reserved(), Limit: p.limit,
		Return: p.Host.Return,
	}
	o.Events, o.Lost = p.take()
	for _, id := range p.policy.Streams() {
		o.Streams[p.policy.Ordinal(id)] = id
		for _, small := range []bool{false, true} {
			key := step.Arena{Stream: id, Small: small}
			p.policy.Gaps(id, small, func(r engine.Range) { o.Gaps[key] = append(o.Gaps[key], r) })
		}
	}
	return o
}

func (p *Pool) take() (events []schedule.Event, lost uint64) {
	events, lost = p.Host.Take()
	p.taken += uint64(len(events)) + lost
	return events, lost
}

// Logged returns how many requests and frees of the default pool there were so far.
func (p *Pool) Logged() uint64 { return p.taken + uint64(p.Host.Logged()) }
