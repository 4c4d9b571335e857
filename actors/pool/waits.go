package pool

import (
	"errors"
	"math"
	"time"

	"go.uber.org/zap"

	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/internal/without"
	"stalloc/stream/schedule"
)

// waiting is what the pool waits for: fences of streams that use freed blocks, or the device.
type waiting struct {
	fences    fences
	patience  patience
	waitsOff  bool                          // no request waits for, or borrows from, other streams
	lateFrees map[driver.Fence]engine.Block // freed blocks that other streams still use
	lastPoll  time.Duration
	waited    bool     // the last request waited for streams, or the device was full
	serving   *Request // nil: none
	unsynced  bool     // the last wait for the device was refused, or failed
	// This free was queued while the lock was taken: the streams that used the block may have been
	// destroyed since.
	deferred bool
	paused   bool // its pool is paused, so no stream can have work on it: fences pass at once
}

func newWaiting(off without.Set) waiting {
	return waiting{waitsOff: off.Has(without.Wait), lateFrees: map[driver.Fence]engine.Block{},
		fences: fences{late: map[mem.StreamID][]waiter{}}}
}

// addFence has something wait for a stream.
func (p *Pool) addFence(op *engine.Op) {
	if p.paused {
		p.fences.passed = append(p.fences.passed, waiter{engine: op.Fence})
		return
	}
	p.fences.add(op.Stream, waiter{engine: op.Fence, urgent: op.Addr == 0})
	// The stream of a view, for whose addresses this waits, may be gone when the block is freed.
	if op.Addr == 0 && !p.deferred {
		p.recordLateFences(op.Stream)
	}
}

// pollBatch bounds the fences that the driver is asked about at one message, each of which costs a
// fifth of a microsecond. Where many are outstanding it is a pollShare-th of them: a program that
// marks no steps would have ever more, and what has passed is asked about once.
const (
	pollBatch = 4
	pollShare = 16
)

// pollSometimes polls a few fences now and then. A request that lacks memory has them polled;
// otherwise it is enough to know about when they pass.
func (p *Pool) pollSometimes() {
	now := p.Clock.Now()
	// GMLake never says that it would rather have waited.
	if (now-p.lastPoll >= pollInterval || !p.policy.Indexed()) && len(p.fences.queues) > 0 ||
		len(p.fences.passed) > 0 {
		p.lastPoll = now
		p.poll(max(pollBatch, p.fences.n/pollShare))
	}
	p.fences.looks++
}

const pollInterval = 300 * time.Microsecond

// poll tells the engine which fences have passed: a few now and then, and all of them at a
// boundary.
func (p *Pool) poll(most int) {
	p.fences.poll(most, func(f driver.Fence) (bool, error) {
		p.calls++
		done, err := p.dev.Done(f)
		if err != nil {
			p.warnFenceRefused(err)
		}
		return done, err
	}, p.pass)
	if at := p.fences.mark; at > 0 {
		p.patience.lag, p.fences.mark = p.Clock.Now()-at, 0
	}
}

// recordLateFences puts a fence on a stream that something waits for, where the program says that it is there.
func (p *Pool) recordLateFences(id mem.StreamID) {
	if len(p.fences.late[id]) > 0 {
		_ = p.record(id)
	}
}

func (p *Pool) record(id mem.StreamID) error {
	p.calls++
	f, err := p.dev.Record(id)
	if err != nil {
		p.warnFenceRefused(err)
		return err
	}
	p.fences.record(id, f, p.Clock.Now())
	return nil
}

// warnFenceRefused says once that memory waits longer than it need.
func (p *Pool) warnFenceRefused(err error) {
	if !p.fences.failed {
		p.Log.Warn("the driver takes no fence, or cannot tell about one; freed memory that "+
			"other streams have used stays taken until it does", zap.Error(err))
	}
	p.fences.failed = true
}

// errCapturing says that the device cannot be waited for.
var errCapturing = errors.New("a private pool is being allocated to: a stream may be captured into a " +
	"graph, and a wait for the device would end that")

// sync waits for the device, but not while a stream may be captured: the wait would end the
// capture. The stream whose request is served tells by whether it takes a fence; another one may
// be wherever a private pool is being allocated to, that of the request included: what streams it
// serves nobody knows. PyTorch's own allocator gives nothing back then either.
func (p *Pool) sync() error {
	err := p.device()
	p.unsynced = err != nil
	if err == nil {
		p.fences.waited()
	}
	return err
}

func (p *Pool) device() error {
	if m := p.serving; m != nil {
		if err := p.record(m.Stream); err != nil {
			return err
		}
	}
	if p.Host.Pools() > 0 {
		return errCapturing
	}
	return p.dev.Sync()
}

// await waits for what freed memory waits for.
func (p *Pool) await() {
	if p.fences.n+p.fences.lateAll > 0 {
		p.calls++
		if err := p.sync(); err != nil {
			p.Log.Debug("the device cannot be waited for", zap.Error(err))
		}
	}
	p.poll(math.MaxInt)
}

func (p *Pool) pass(w waiter) {
	for _, op := range p.policy.Step(engine.Event{Kind: engine.EvFence, Fence: w.engine}, nil) {
		if op.Kind != engine.OpUnknown { // passed by a synchronisation meanwhile
			panic("a passed fence needs no operation")
		}
	}
	b, known := p.lateFrees[w.engine]
	if !known {
		return
	}
	delete(p.lateFrees, w.engine)
	if now, still := p.policy.Lookup(b.Addr); still && now.Pending {
		return // it waits for other fences as well
	}
	if b.Pool == 0 {
		p.note(schedule.EventDone, b.Addr, b.Size, b.Stream)
	}
}
