package pool

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"stalloc/actors/device/sleeper"
	"stalloc/engine"
	"stalloc/engine/order"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// ErrUnknown says that an address is no live block of the pool.
var ErrUnknown = errors.New("not a live block: freed before, or not allocated by stalloc")

// runner performs the operations of the engine on the device.
type runner struct {
	policy  policy
	order   *order.Engine // over the policy: events go there
	dev     *sleeper.Device
	handles []driver.Handle               // by engine.Index; 0: released
	events  map[driver.Fence]driver.Fence // the driver's, by the engine's numbers
	ops     []engine.Op                   // of the last event
	calls   uint64                        // of the driver
	time    time.Duration                 // in them
	peak    mem.Bytes                     // of handles since the last reset
	// the event under way has waited for the device, or that was full
	waited bool

	warnEvents sync.Once // that the driver takes none
}

// maxRounds bounds the answers one event may need, queries aside: each failed operation and each
// resumption is one. A policy makes far fewer attempts.
const maxRounds = 64

// run feeds the engine an event and performs what comes back until the event is settled. It
// returns the answer, if the event asked for one.
func (p *Pool) run(ev engine.Event) (engine.Op, error) {
	answer, err := p.settled(ev)
	p.peak = max(p.peak, p.held())
	p.noteWanted()
	return answer, err
}

func (p *Pool) settled(ev engine.Event) (engine.Op, error) {
	ev.Now = engine.Nanos(p.Clock.Now())
	for rounds := 0; rounds < maxRounds; {
		p.ops = p.order.Step(ev, p.ops[:0])
		if len(p.ops) == 0 {
			return engine.Op{}, nil
		}
		last := p.ops[len(p.ops)-1]
		failed, err := p.perform(p.ops)
		if err == nil && last.Kind == engine.OpQuery {
			ev = p.query(last)
			continue
		}
		rounds++
		switch {
		case err != nil:
			p.waited = p.waited || errors.Is(err, driver.ErrOutOfMemory)
			p.Log.Debug("a driver call failed; the engine tries something else",
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
			return last, &engine.RefusedError{Reason: last.Reason, Code: last.Code, Limit: p.limit}
		case last.Kind == engine.OpUnknown:
			return last, ErrUnknown
		default:
			return last, nil
		}
	}
	panic(fmt.Sprintf("the engine did not settle event %d in %d rounds", ev.Kind, maxRounds))
}

// perform does the operations in order and stops at the first that fails.
func (p *Pool) perform(ops []engine.Op) (int, error) {
	var start time.Time
	calls := p.calls
	for i := range ops {
		op := &ops[i]
		if op.Kind == engine.OpRest {
			p.dev.Rest(p.handles[op.Handle])
			continue
		}
		if op.Kind >= engine.OpQuery {
			if op.Kind == engine.OpFreed {
				p.note(schedule.EventDone, op.Addr, op.Size, op.Stream)
			}
			continue
		}
		if start.IsZero() {
			start = time.Now()
			defer p.applyLimit() // what slept may be made, or given up
		}
		p.calls++
		if err := p.call(op); err != nil {
			p.time += time.Since(start)
			return i, err
		}
	}
	if !start.IsZero() {
		p.time += time.Since(start)
		p.traced(start, purpose(p.ops), "calls", int64(p.calls-calls))
	}
	return 0, nil
}

func (p *Pool) call(op *engine.Op) error {
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
		if p.waited = true; p.Host.Captures() > 0 { // since the event began
			return errCapturing
		}
		return p.dev.Sync()
	case engine.OpRecordEvent:
		return p.record(op)
	}
	panic(fmt.Sprintf("the engine asked for operation %d", op.Kind))
}

// record records an event. That the driver refuses fails the batch only where it must not.
func (p *Pool) record(op *engine.Op) error {
	x, err := p.dev.Record(op.Stream)
	if err == nil {
		p.events[op.Fence] = x
		return nil
	}
	p.eventsFail(err)
	p.order.Step(engine.Event{Kind: engine.EvUnrecorded, Fence: op.Fence}, nil)
	if op.Must {
		return err
	}
	return nil
}

func (p *Pool) query(op engine.Op) engine.Event {
	if op.Delay > 0 {
		p.Clock.Sleep(time.Duration(op.Delay))
	}
	answer := engine.Event{Kind: engine.EvAnswer, Fence: op.Fence}
	answer.Now = engine.Nanos(p.Clock.Now())
	x, recorded := p.events[op.Fence]
	if !recorded { // the driver has refused it just now
		return answer
	}
	p.calls++
	passed, err := p.dev.Done(x)
	answer.Passed = passed
	if err != nil {
		p.eventsFail(err)
		answer.Code = 1
	}
	if passed || err != nil {
		delete(p.events, op.Fence)
	}
	return answer
}

// eventsFail says once that memory waits longer than it need. A stream that is captured takes no
// event, so nothing is wrong then.
func (p *Pool) eventsFail(err error) {
	if p.Host.Captures() > 0 {
		return
	}
	p.warnEvents.Do(func() {
		p.Log.Warn("the driver cannot record or query a CUDA event; freed memory that other "+
			"streams have used stays taken until it can", zap.Error(err))
	})
}

// errCapturing says that the device cannot be waited for.
var errCapturing = errors.New("a CUDA graph is being captured, or may be, and a wait for the device " +
	"would break the capture; try again when it has ended")

// sync waits for the device, but not while a stream may be captured: the wait would end the
// capture.
func (p *Pool) sync() error {
	if p.Host.Captures() > 0 {
		return errCapturing
	}
	p.calls++
	err := p.dev.Sync()
	if err == nil {
		p.order.Step(engine.Event{Kind: engine.EvSynced}, nil)
	}
	return err
}

// Poll asks about all fences.
func (p *Pool) Poll() { _, _ = p.run(engine.Event{Kind: engine.EvPoll}) }

// reserved returns the memory that handles have.
func (p *Pool) reserved() mem.Bytes {
	return p.policy.Reserved() - p.dev.Asleep() - p.dev.Resting()
}

// held returns the memory that is held of the driver: what no handle has for the moment, too.
func (p *Pool) held() mem.Bytes { return p.reserved() + p.dev.Spare() }
