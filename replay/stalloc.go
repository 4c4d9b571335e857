package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"stalloc/actors"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/trace"
)

// start sets up a run.
func start(tr *trace.Trace, c Config, options actors.Options) (*live, error) {
	options.Inline = true
	once := newOnce(c.held)
	l, err := newLive(sim.New(sim.Config{Capacity: c.Capacity, Manual: true, Held: once.held()}),
		options)
	if err == nil {
		l.others, l.once = otherStreams(tr), once
		if c.Unwatched {
			l.watch = sim.NewUses(l.device)
		}
		if len(l.others) > 0 || severalStreams(tr) {
			l.ends = completions(tr)
		}
		if len(l.others) == 0 {
			l.ahead.lag = usualLag(tr)
		}
	}
	return l, err
}

// Plan replays a recording and returns the plan of a later run. The error says that there
// is none, and why.
func Plan(ctx context.Context, tr *trace.Trace) (*plan.Plan, Result, error) {
	l, err := start(tr, Config{}, actors.Options{})
	if err != nil {
		return nil, Result{}, err
	}
	r, err := Run(ctx, tr, l, nil)
	if err == nil && len(r.Steps) == 0 {
		err = errors.New("it has no step marks: mark the steps while it is recorded")
	} else if err == nil && l.plan == nil {
		err = fmt.Errorf("no step repeated, request for request, of %d: nothing to plan; best fit serves what varies. Record some more steps if they do repeat", len(r.Steps))
	}
	return l.plan, r, err
}

// live is a Target over the live allocator, whatever its policy.
type live struct {
	device *sim.Device
	local  *actors.Local
	blocks map[int64]mem.Addr
	watch  *sim.Watch
	seen   map[int64]*sim.Watched
	ahead  ahead
	ends   map[int64]time.Duration // when deferred frees complete
	waits  map[int64]wait          // blocks that another stream still uses
	// by block, the stream that its free waits for: where it completes late, or was recorded
	others map[int64]mem.StreamID
	events int
	// The streams on which the trace makes requests.
	streams map[mem.StreamID]bool
	once    *once // nil: nobody wants to know where memory is
	fault   error
	plan    *plan.Plan // at the end
}

// wait is how far a stream must come.
type wait struct {
	stream mem.StreamID
	to     mem.Tick
}

func newLive(device *sim.Device, options actors.Options) (*live, error) {
	l := &live{
		device: device, watch: sim.NewWatch(device), seen: make(map[int64]*sim.Watched),
		blocks: make(map[int64]mem.Addr),
		waits:  make(map[int64]wait), streams: make(map[mem.StreamID]bool),
	}
	options.Clock = actors.Clock{Now: l.ahead.host, Sleep: l.wait}
	var err error
	l.local, err = actors.OpenLocal(device, options)
	return l, err
}

func (l *live) At(_ int, micros int64) {
	l.ahead.now = time.Duration(micros) * time.Microsecond
	l.follow()
}

// wait is a thread's that waits for other streams.
func (l *live) wait(d time.Duration) {
	if l.ends != nil {
		// what is queued besides: fences
		for _, stream := range slices.Sorted(maps.Keys(l.streams)) {
			l.ahead.queue(stream, l.device.Place(stream))
		}
	}
	l.ahead.wait(d)
	l.follow()
}

// follow lets the device come to where it was by now.
func (l *live) follow() {
	a := &l.ahead
	for len(a.queued) > 0 && a.queued[0].at <= a.device() {
		l.device.FinishTo(a.queued[0].stream, a.queued[0].to)
		a.queued = a.queued[1:]
	}
	for len(a.due) > 0 && a.due[0].at <= a.device() {
		l.FreeCompleted(a.due[0].id)
		a.due = a.due[1:]
	}
}

// advance lets the device follow.
func (l *live) advance() {
	if l.events++; l.events%deviceLag == 0 {
		for stream := range l.streams {
			l.device.Finish(stream)
		}
	}
}

func (l *live) Alloc(id int64, size mem.Bytes, stream mem.StreamID) error {
	if !l.streams[stream] {
		l.streams[stream] = true
		l.local.PersistentStream(stream)
	}
	if l.ends != nil {
		l.ahead.queue(stream, l.device.Place(stream))
	} else {
		l.advance()
	}
	addr, err := l.local.Malloc(stream, size)
	if err == nil && addr != 0 {
		l.blocks[id] = addr
		var wrong error
		l.seen[id], wrong = l.watch.Begin(addr, size, stream)
		l.note(wrong)
	}
	return err
}

// RecordStream makes a block wait for a stream, unless another stands in for it, whose work ends
// when the recorded free completes.
func (l *live) RecordStream(id int64, stream mem.StreamID) {
	if addr, ok := l.blocks[id]; ok && l.others[id] == 0 {
		l.note(l.local.Record(addr, stream))
		l.others[id] = stream
	}
}

func (l *live) FreeRequested(id int64, deferred bool) {
	addr, ok := l.blocks[id]
	if !ok {
		return
	}
	delete(l.blocks, id)
	if l.ends == nil {
		l.advance()
	}
	other, waits := l.others[id]
	if deferred {
		if !waits {
			other, waits = otherStream<<1+mem.StreamID(id), true
		}
		l.note(l.local.Record(addr, other))
	}
	if waits {
		l.note(l.seen[id].Freed(other))
	} else {
		l.note(l.seen[id].Freed())
		delete(l.seen, id)
	}
	l.note(l.local.Release(addr))
	if waits {
		l.waits[id] = wait{other, l.device.Place(other)}
		l.ahead.free(id, l.ends)
	}
}

func (l *live) FreeCompleted(id int64) {
	if w, ok := l.waits[id]; ok {
		delete(l.waits, id)
		l.seen[id].End()
		delete(l.seen, id)
		l.device.FinishTo(w.stream, w.to)
	}
}

func (l *live) EmptyCache() { l.note(l.local.Trim(0)) }

func (l *live) Step() Done {
	l.note(l.local.Step())
	l.ahead.endStep()
	return l.done()
}

func (l *live) done() Done {
	calls := l.device.Stats()
	return Done{Calls: calls.Calls(), TimeUS: micros(calls.Time), Retries: int64(l.local.Retries())}
}

func (l *live) Finish() (Counts, error) {
	s, calls := l.local.Stats(), l.device.Stats()
	c := Counts{
		Hits: int64(s.Hits), Misses: int64(s.Misses),
		PeakReserved: l.device.Peak(),
		LostEvents:   int64(l.local.LostEvents()),
		DriverCalls:  calls.Calls(),
		DriverTimeUS: micros(calls.Time),
		Retries:      int64(s.Retries),
		Waited:       l.ahead.all.Microseconds(),
		Idle:         l.ahead.idle.Microseconds(),
	}
	l.note(l.local.Check())
	l.note(l.device.Check())
	for _, v := range l.device.Violations() {
		l.note(v)
	}
	l.plan = l.local.Plan()
	_ = l.local.Close() // it complains of the blocks that the trace leaves live
	return c, l.fault
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func (l *live) note(err error) {
	if l.fault == nil {
		l.fault = err
	}
}
