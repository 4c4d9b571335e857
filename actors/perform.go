package actors

import (
	"errors"
	"fmt"
	"math"
	"time"

	"go.uber.org/zap"

	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/explain"
	"stalloc/internal/mem"
	"stalloc/stream/wish"
)

// ErrUnknown says that an address is no live block of the pool.
var ErrUnknown = errors.New("not a live block")

// maxRounds bounds the answers one event may need: each failed operation and
// each resumption is one. The engine's ladder has far fewer rungs. Any number of
// streams may refuse to be waited for.
const maxRounds = 64

// run feeds the engine an event and performs what comes back until the event is
// settled. It returns the grant, if the event asked for one.
func (p *pool) run(ev engine.Event) (engine.Op, error) {
	p.unwaited = 0
	for round := 0; round < maxRounds+p.unwaited; round++ {
		p.ops = p.eng.Step(ev, p.ops[:0])
		if len(p.ops) == 0 {
			return engine.Op{}, nil
		}
		last := p.ops[len(p.ops)-1]
		failed, err := p.perform(p.ops)
		if err == nil { // else the engine still counts what could not be done
			p.peak = max(p.peak, p.eng.Reserved())
		}
		switch {
		case err != nil:
			p.waited = p.waited || errors.Is(err, driver.ErrOutOfMemory)
			p.log.Debug("a driver call failed; the engine tries something else", zap.Uint8("event", uint8(ev.Kind)), zap.Error(err))
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
		if err := p.dev.Map(op.Addr, p.handles[op.Handle]); err != nil {
			return err
		}
		p.mapped[op.Addr] = op.Size
		return nil
	case engine.OpAccess:
		return p.dev.Access(op.Addr, op.Size)
	case engine.OpUnmap:
		if err := p.dev.Unmap(op.Addr, op.Size); err != nil {
			return err
		}
		for at := op.Addr; at < op.Addr+mem.Addr(op.Size); at += mem.Addr(mem.HandleSize) {
			delete(p.mapped, at)
		}
		return nil
	case engine.OpRelease:
		if err := p.dev.Release(p.handles[op.Handle]); err != nil {
			return err
		}
		p.handles[op.Handle] = 0
		return nil
	case engine.OpSync:
		p.waited = true
		return p.sync(op.Stream)
	case engine.OpRecord:
		p.fence(waiting{stream: op.Stream, engine: op.Fence, urgent: op.Addr == 0})
		return nil
	}
	panic(fmt.Sprintf("the engine asked for operation %d", op.Kind))
}

// pollBatch bounds the fences that the driver is asked about at one message. Each costs a
// fifth of a microsecond, and many may be outstanding.
const pollBatch = 4

// ask polls a few fences now and then. A request that lacks memory has them polled;
// otherwise it is enough to know about when they pass.
func (p *pool) ask() {
	// GMLake never says that it would rather have waited.
	if p.asked++; (p.asked%askEvery == 0 || p.ranged == nil) && p.fences.n > 0 {
		p.poll(pollBatch)
	}
	if p.fences.due() {
		p.retry()
	}
}

const askEvery = 8

// poll tells the engine which fences have passed: a few at every
// message, and all of them, the late ones too, at a boundary.
func (p *pool) poll(most int) {
	if most == math.MaxInt {
		p.retry()
	}
	p.fences.poll(most, func(f driver.Fence) (bool, error) {
		p.calls++
		done, err := p.dev.Done(f)
		if err != nil {
			p.unfenced(err)
		}
		return done, err
	}, p.pass)
}

func (p *pool) retry() {
	p.fences.retry(func(id mem.StreamID) (driver.Fence, error) {
		p.calls++
		return p.dev.Record(id)
	}, p.pass)
}

// fence puts a fence behind the work of a stream, at once or as soon as the driver lets
// it.
func (p *pool) fence(w waiting) {
	var err error
	if w.driver, err = p.dev.Record(w.stream); err != nil {
		p.unfenced(err)
		p.fences.put(w)
		return
	}
	p.fences.add(w)
}

// unfenced says once that memory waits longer than it need.
func (p *pool) unfenced(err error) {
	if !p.fences.failed {
		p.log.Warn("the driver takes no fence, or cannot tell about one; freed memory that other streams have used stays taken until it does", zap.Error(err))
	}
}

// sync waits for a stream.
func (p *pool) sync(id mem.StreamID) error {
	err := p.dev.Sync(id)
	if err == nil {
		p.fences.synced(id)
	} else {
		p.unwaited++
	}
	return err
}

// await waits for every stream that freed memory waits for, and reports whether any of
// it came free.
func (p *pool) await() bool {
	before := p.fences.n + len(p.fences.late)
	for _, id := range p.fences.streams() {
		p.calls++
		if err := p.sync(id); err != nil {
			p.log.Debug("a stream cannot be waited for", zap.Error(err))
		}
	}
	p.poll(math.MaxInt)
	return p.fences.n+len(p.fences.late) < before
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
		p.note(wish.EventDone, b.Addr, b.Size, b.Stream)
		p.ahead.read(p)
	}
}

// RefusedError says why the engine could not serve a request.
type RefusedError struct {
	Reason engine.Reason
	Code   int       // the driver's last error, or 0
	Limit  mem.Bytes // that the program has set, or 0
}

// isRefused reports whether an error says that the engine refused, and for a reason.
func isRefused(err error, why engine.Reason) bool {
	if err == nil { // nearly always: without an allocation
		return false
	}
	var refused *RefusedError
	return errors.As(err, &refused) && refused.Reason == why
}

func (e *RefusedError) Error() string {
	switch why := e.why(); {
	case why == explain.TooLarge:
		return "no block can be that large: it exceeds the memory of the device"
	case why == explain.Limit && e.Limit > 0:
		return fmt.Sprintf("the memory limit is reached: %v", e.Limit)
	case why == explain.Window:
		return "the address window is used up; set STALLOC_CONF=window:SIZE to reserve more"
	case why == explain.Driver:
		return fmt.Sprintf("the driver failed with error %d", e.Code)
	}
	return "the device has no memory left" // the engine's limit is what the device has
}

// Is reports whether there is no room for the block: the device is full, a limit is
// reached, or it is larger than either.
func (e *RefusedError) Is(target error) bool {
	why := e.why()
	return target == driver.ErrOutOfMemory && why != explain.Driver && why != explain.Unknown
}

// why is the reason in the words of the explanation.
func (e *RefusedError) why() explain.Why {
	switch e.Reason {
	case engine.RefusedSize:
		return explain.TooLarge
	case engine.RefusedLimit:
		return explain.Limit
	case engine.RefusedWindow:
		return explain.Window
	case engine.RefusedDevice:
		if e.Code == driver.CodeOutOfMemory || e.Code == 0 {
			return explain.Full
		}
		return explain.Driver
	}
	return explain.Unknown
}
