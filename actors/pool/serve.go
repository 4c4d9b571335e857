package pool

import (
	"errors"
	"time"

	"stalloc/actors/inline"
	"stalloc/engine"
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

	Addr  mem.Addr // answer
	Again bool     // answer: ask again in PollInterval
	wait  wait
}

// wait is how a request waits for memory that other streams are about to be done with.
type wait struct {
	waited      bool
	stalled     bool // the device came no further meanwhile
	from, until time.Duration
	// when the oldest mark that had not passed at the last look was put
	mark    time.Duration
	lenders []mem.StreamID // the streams that lend memory for it, once they do
	last    bool           // it waits for lenders, or is refused (scarce.go)
}

// MustSleep reports whether the thread is to let some time pass before it asks again.
func (m *Request) MustSleep() bool { return !m.CannotWait || m.wait.last }

// Free gives a block back.
type Free struct {
	inline.Answer
	Addr mem.Addr
	// Deferred: the program freed it some time ago, so streams that used it may be gone.
	Deferred bool
	Freed    engine.Block // answer
}

// serve finds a block for a request.
func (p *Pool) serve(m *Request) error {
	if p.state == retired {
		return ErrRetired
	}
	if p.sleeps(m.Private) {
		return ErrAsleep
	}
	p.beginRegion(m.Private)
	p.serving = m
	defer func() { p.serving = nil }()
	p.recordLateFences(m.Stream)
	p.mark(m.Stream)
	if p.Host.Persistent(m.Stream) {
		p.policy.SetPersistent(m.Stream)
	}
	if m.wait.last && p.waitsOn(m) {
		return nil
	}
	before := p.policy.Reserved()
	p.waited, p.unsynced = m.wait.last, false
	grant, err := p.allocate(m)
	if held := p.policy.Reserved(); errors.Is(err, driver.ErrOutOfMemory) &&
		p.trimRegions() == nil && p.policy.Reserved() < held {
		grant, err = p.allocate(m)
	}
	if errors.Is(err, driver.ErrOutOfMemory) && p.unsynced {
		grant, err = p.borrowLast(m, err)
	}
	if m.Again {
		return nil
	}
	if err != nil {
		if p.policy.Reserved() > before {
			_, _ = p.run(engine.Event{Kind: engine.EvTrim, Vain: true})
		}
		return err
	}
	if p.waited {
		p.Retries.Add(1)
	}
	p.served(m, grant)
	return nil
}

// served answers a request, and logs it.
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

// note logs what happened to a block of a stream.
func (p *Pool) note(kind schedule.EventKind, at mem.Addr, size mem.Bytes, id mem.StreamID) {
	p.Host.Note(schedule.EventOf(kind, uint64(at), uint64(size/mem.Grain), p.policy.Ordinal(id)))
}

func (p *Pool) free(m *Free) error {
	b, ok := p.policy.Lookup(m.Addr)
	if !ok || b.Addr != m.Addr || b.Pending {
		return ErrUnknown
	}
	awake := p.unexport(m.Addr)
	p.deferred, p.paused = m.Deferred, p.sleeps(b.Pool) && !awake
	_, err := p.run(engine.Event{Kind: engine.EvFree, Addr: m.Addr})
	p.deferred, p.paused = false, false
	if err != nil {
		return err
	}
	m.Freed = b
	kind := schedule.EventFree
	for _, op := range p.ops {
		if op.Kind == engine.OpRecord && op.Addr == 0 {
			p.lateFrees[op.Fence] = b
			kind = schedule.EventLate
		}
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
	p.recordLateFences(id)
	_, err := p.run(engine.Event{Kind: engine.EvRecord, Addr: addr, Stream: id})
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
