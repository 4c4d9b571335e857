package actors

import (
	"errors"
	"fmt"
	"math"
	"time"

	"go.uber.org/zap"

	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// ErrUnknown says that an address is no live block of the pool.
var ErrUnknown = errors.New("not a live block")

// maxRounds bounds the answers one event may need: each failed operation and
// each resumption is one. An engine makes far fewer attempts.
const maxRounds = 64

// run feeds the engine an event and performs what comes back until the event is
// settled. It returns the grant, if the event asked for one.
func (p *pool) run(ev engine.Event) (engine.Op, error) {
	for range maxRounds {
		p.ops = p.eng.Step(ev, p.ops[:0])
		if len(p.ops) == 0 {
			return engine.Op{}, nil
		}
		last := p.ops[len(p.ops)-1]
		failed, err := p.perform(p.ops)
		if err == nil { // else the engine still counts what could not be done
			p.peak = max(p.peak, p.reserved())
		}
		switch {
		case err != nil:
			p.waited = p.waited || errors.Is(err, driver.ErrOutOfMemory)
			p.log.Debug("a driver call failed; the engine tries something else",
				zap.Uint8("event", uint8(ev.Kind)), zap.Error(err))
			var call *driver.Error
			code := 0
			if errors.As(err, &call) {
				code = call.Code
			}
			ev = engine.Event{Kind: engine.EvFailed, Failed: failed, Code: code, Req: ev.Req}
		case last.Kind == engine.OpResume:
			ev = engine.Event{Kind: engine.EvResume, Req: last.Req}
		case last.Kind == engine.OpRefuse:
			return last, &RefusedError{Reason: last.Reason, Code: last.Code, Limit: p.limit}
		case last.Kind == engine.OpUnknown:
			return last, ErrUnknown
		default:
			return last, nil
		}
	}
	panic(fmt.Sprintf("the engine did not settle event %d in %d rounds", ev.Kind, maxRounds))
}

// perform does the operations in order and stops at the first that fails.
func (p *pool) perform(ops []engine.Op) (int, error) {
	var start time.Time
	calls := p.calls
	for i := range ops {
		op := &ops[i]
		if op.Kind >= engine.OpResume {
			continue
		}
		if start.IsZero() {
			start = time.Now()
			defer p.bound() // what slept may be made, or given up
		}
		p.calls++
		if err := p.call(op); err != nil {
			p.time += time.Since(start)
			return i, err
		}
	}
	if !start.IsZero() {
		p.time += time.Since(start)
		if p.trace != nil {
			p.tracedCalls(start, p.calls-calls)
		}
	}
	return 0, nil
}

func (p *pool) call(op *engine.Op) error {
	switch op.Kind {
	case engine.OpCreate:
		h, err := p.dev.Create(op.Size)
		if err != nil {
			return err
		}
		for int(op.Handle) >= len(p.handles) {
			p.handles = append(p.handles, 0)
		}
		p.handles[op.Handle] = h
		return nil
	case engine.OpMap:
		return p.dev.Map(op.Addr, p.handles[op.Handle])
	case engine.OpAccess:
		return p.dev.Access(op.Addr, op.Size)
	case engine.OpUnmap:
		return p.dev.Unmap(op.Addr, op.Size)
	case engine.OpRelease:
		if err := p.dev.Release(p.handles[op.Handle]); err != nil {
			return err
		}
		p.handles[op.Handle] = 0
		return nil
	case engine.OpSync:
		p.waited = true
		return p.sync()
	case engine.OpRecord:
		if p.idling {
			p.fences.passed = append(p.fences.passed, waiting{engine: op.Fence})
			return nil
		}
		p.fences.add(op.Stream, waiting{engine: op.Fence, urgent: op.Addr == 0})
		// The stream of a view, for whose addresses this waits, may be gone when the block is
		// freed.
		if op.Addr == 0 && !p.past {
			p.seen(op.Stream)
		}
		return nil
	}
	panic(fmt.Sprintf("the engine asked for operation %d", op.Kind))
}

// pollBatch bounds the fences that the driver is asked about at one message, each of which costs a
// fifth of a microsecond. Where many are outstanding it is a pollShare-th of them: a program that
// marks no steps would have ever more, and what has passed is asked about once.
const (
	pollBatch = 4
	pollShare = 16
)

// ask polls a few fences now and then. A request that lacks memory has them polled;
// otherwise it is enough to know about when they pass.
func (p *pool) ask() {
	now := p.clock.Now()
	// GMLake never says that it would rather have waited.
	if (now-p.asked >= askAgain || p.ranged == nil) && len(p.fences.queues) > 0 ||
		len(p.fences.passed) > 0 {
		p.asked = now
		p.poll(max(pollBatch, p.fences.n/pollShare))
	}
	p.fences.looks++
}

const askAgain = 300 * time.Microsecond

// poll tells the engine which fences have passed: a few now and then, and all of them at a
// boundary.
func (p *pool) poll(most int) {
	p.fences.poll(most, func(f driver.Fence) (bool, error) {
		p.calls++
		done, err := p.dev.Done(f)
		if err != nil {
			p.unfenced(err)
		}
		return done, err
	}, p.pass)
	if at := p.fences.mark; at > 0 {
		p.patience.lag, p.fences.mark = p.clock.Now()-at, 0
	}
}

// seen puts a fence on a stream that something waits for, where the program says that it is there.
func (p *pool) seen(id mem.StreamID) {
	if len(p.fences.late[id]) > 0 {
		_ = p.record(id)
	}
}

func (p *pool) record(id mem.StreamID) error {
	p.calls++
	f, err := p.dev.Record(id)
	if err != nil {
		p.unfenced(err)
		return err
	}
	p.fences.record(id, f, p.clock.Now())
	return nil
}

// unfenced says once that memory waits longer than it need.
func (p *pool) unfenced(err error) {
	if !p.fences.failed {
		p.log.Warn("the driver takes no fence, or cannot tell about one; freed memory that other streams have used stays taken until it does", zap.Error(err))
	}
	p.fences.failed = true
}

// errCapturing says that the device cannot be waited for.
var errCapturing = errors.New("a private pool is being allocated to: a stream may be captured into a graph, and a wait for the device would end that")

// sync waits for the device, but not while a stream may be captured: the wait would end the
// capture. The stream whose request is served tells by whether it takes a fence; another one may
// be wherever a private pool is being allocated to, that of the request included: what streams it
// serves nobody knows. PyTorch's own allocator gives nothing back then either.
func (p *pool) sync() error {
	err := p.device()
	p.unsynced = err != nil
	if err == nil {
		p.fences.waited()
	}
	return err
}

func (p *pool) device() error {
	if m := p.serving; m != nil {
		if err := p.record(m.stream); err != nil {
			return err
		}
	}
	if p.host.Pools() > 0 {
		return errCapturing
	}
	return p.dev.Sync()
}

// await waits for what freed memory waits for.
func (p *pool) await() {
	if p.fences.n+p.fences.lateAll > 0 {
		p.calls++
		if err := p.sync(); err != nil {
			p.log.Debug("the device cannot be waited for", zap.Error(err))
		}
	}
	p.poll(math.MaxInt)
}

func (p *pool) pass(w waiting) {
	for _, op := range p.eng.Step(engine.Event{Kind: engine.EvFence, Fence: w.engine}, nil) {
		if op.Kind != engine.OpUnknown { // passed by a synchronisation meanwhile
			panic("a passed fence needs no operation")
		}
	}
	b, known := p.waits[w.engine]
	if !known {
		return
	}
	delete(p.waits, w.engine)
	if now, still := p.eng.Lookup(b.Addr); still && now.Pending {
		return // it waits for other fences as well
	}
	if b.Pool == 0 {
		p.note(schedule.EventDone, b.Addr, b.Size, b.Stream)
	}
}
