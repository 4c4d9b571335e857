package pool

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"stalloc/actors/device"
	"stalloc/actors/device/sleeper"
	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// ErrUnknown says that an address is no live block of the pool.
var ErrUnknown = errors.New("not a live block")

// runner performs the operations of the policy on the device.
type runner struct {
	policy  policy
	dev     *sleeper.Device
	handles []driver.Handle // by engine.Index; 0: released
	ops     []engine.Op     // of the last event
	calls   uint64          // of the driver
	time    time.Duration   // in them
	peak    mem.Bytes       // of handles since the last reset
}

func newRunner(dev device.Device) runner { return runner{dev: sleeper.New(dev)} }

// maxRounds bounds the answers one event may need: each failed operation and each resumption is
// one. A policy makes far fewer attempts.
const maxRounds = 64

// run feeds the policy an event and performs what comes back until the event is settled. It
// returns the grant, if the event asked for one.
func (p *Pool) run(ev engine.Event) (engine.Op, error) {
	for range maxRounds {
		p.ops = p.policy.Step(ev, p.ops[:0])
		if len(p.ops) == 0 {
			return engine.Op{}, nil
		}
		last := p.ops[len(p.ops)-1]
		failed, err := p.perform(p.ops)
		if err == nil { // else the policy still counts what could not be done
			p.peak = max(p.peak, p.reserved())
		}
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
func (p *Pool) perform(ops []engine.Op) (int, error) {
	var start time.Time
	calls := p.calls
	for i := range ops {
		op := &ops[i]
		if op.Kind >= engine.OpResume {
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
		if p.Trace != nil {
			p.tracedCalls(start, p.calls-calls)
		}
	}
	return 0, nil
}

// call does one operation.
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
		p.waited = true
		return p.sync()
	case engine.OpRecord:
		p.addFence(op)
		return nil
	}
	panic(fmt.Sprintf("the engine asked for operation %d", op.Kind))
}

// reserved returns the memory that is held of the driver.
func (p *Pool) reserved() mem.Bytes { return p.policy.Reserved() - p.dev.Asleep() }
