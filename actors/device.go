package actors

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"stalloc/actors/device"
	"stalloc/actors/host"
	"stalloc/actors/inline"
	"stalloc/actors/pool"
	"stalloc/actors/region"
	"stalloc/actors/stream"
	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/live/perfetto"
	"stalloc/plan"
)

// What a device may answer, besides driver.ErrOutOfMemory.
var (
	ErrUnknown  = pool.ErrUnknown   // an address is no live block
	ErrBroken   = pool.ErrBroken    // the pool lost track of its state and serves nothing more
	ErrRetired  = pool.ErrRetired   // the device was closed
	ErrAsleep   = pool.ErrAsleep    // this memory sleeps
	ErrNoRegion = region.ErrUnknown // a tag is no region's name
)

// Device is the allocator of one GPU. Its methods may be called from any thread.
type Device struct {
	opts   Options
	log    *zap.Logger
	system *inline.System
	dev    device.Device
	host   host.Host
	window pool.Window

	pool       *inline.PID
	supervisor *inline.PID
	planner    *inline.PID // nil: no planning
	streams    *stream.Table
	shadow     Shadow // nil: what PyTorch's allocator would reserve is not asked
	counts     counts
	latest     atomic.Pointer[plan.Plan]
	tooLarge   atomic.Pointer[string] // what was said of a step that will not fit; nil: nothing
	life       lifecycle

	// Messages that come with every request, to be used again. Each device has its own: a
	// message's wake-up channel belongs to those who wait on it.
	messages sync.Pool
}

// counts are what is counted without a lock.
type counts struct {
	waiting    atomic.Int64  // the weight of steps that the planner has not read yet
	dropped    atomic.Uint64 // events of steps that it never will
	generation atomic.Uint64 // plans activated
	steps      atomic.Uint64 // boundaries
	retries    atomic.Uint64 // see pool.Stats
	marked     atomic.Bool   // the program marks its steps
}

// messages of a request and of a free.
type messages struct {
	alloc pool.Request
	look  stream.Request
	free  pool.Free
}

// onPool runs a function on the pool, or broken where the pool is broken; nil: nothing, and an
// error is returned.
func (d *Device) onPool(do, broken func(*pool.Pool) error) error {
	m := &pool.Call{Do: do, Broken: broken}
	d.system.Ask(d.pool, m)
	return m.Err
}

// nothing is what a broken pool does where there is nothing to be done.
func nothing(*pool.Pool) error { return nil }

// Serve returns a block of at least asked bytes for work on a stream, 0 < asked. Private
// pools (private not 0) share memory with nothing else and are not planned. The error matches
// driver.ErrOutOfMemory if the device is full, ErrBroken if the pool is.
func (d *Device) Serve(id mem.StreamID, private uint64, asked mem.Bytes) (mem.Addr, error) {
	if asked > d.window.Largest {
		return 0, d.explained(&engine.RefusedError{Reason: engine.RefusedSize}, id, asked)
	}
	m := d.messages.Get().(*messages)
	defer d.messages.Put(m)
	a := &m.alloc
	*a = pool.Request{Answer: a.Answer.Again(), Size: asked, Stream: id, Private: private,
		CannotWait: !d.host.MayWait()}
	if private == 0 {
		m.look = stream.Request{Answer: m.look.Answer.Again(), Size: asked, Stream: id}
		d.look(&m.look)
		a.Cursor, a.Planned = m.look.Cursor, m.look.At
	} else if d.shadow != nil {
		d.shadow.Private()
	}
	var since time.Time
	for d.system.Ask(d.pool, a); a.Again; d.system.Ask(d.pool, a) {
		a.Again = false // or an actor that may not serve it any more would have it ask for ever
		if since.IsZero() {
			since = time.Now()
		}
		if a.MustSleep() {
			d.opts.Clock.Sleep(pool.PollInterval)
		}
	}
	if !since.IsZero() {
		d.opts.Trace.Span(since, time.Now(), d.opts.Ordinal, "a request waits for streams",
			perfetto.Args{"bytes": int64(asked)})
	}
	if errors.Is(a.Err, driver.ErrOutOfMemory) {
		return 0, d.explained(a.Err, id, asked)
	}
	return a.Addr, a.Err
}

// ServeAt allocates a block of a private pool at an address where an earlier one was. An error says
// that a part of the place is taken, or that its memory went back to the driver.
func (d *Device) ServeAt(id mem.StreamID, private uint64, asked mem.Bytes, at mem.Addr) error {
	m := &pool.Request{Size: asked, Stream: id, Private: private, Planned: at, Exact: true}
	return d.onPool(func(p *pool.Pool) error { return p.ServeAt(m) }, nil)
}

// Capture says that a graph is captured that uses a private pool: until the pool is trimmed, the
// memory at its addresses stays.
func (d *Device) Capture(private uint64) error {
	return d.onPool(func(p *pool.Pool) error { return p.Capture(private) }, nothing)
}

// look asks the stream's actor where a request is planned. An implicit step that ends before it is
// ended first.
func (d *Device) look(r *stream.Request) {
	s := d.streams.Of(r.Stream)
	if s == nil {
		_ = d.onSupervisor(func(s *supervisor) error { d.streams.Add(r.Stream); return nil })
		if s = d.streams.Of(r.Stream); s == nil {
			return
		}
	}
	if !d.counts.marked.Load() {
		d.endImplicitStep()
	}
	if err := d.streams.Look(s, r); err != nil {
		d.log.Error("a stream could not look a request up; it is served without a planned offset",
			zap.Error(err))
	}
}

// Free gives a block back, and returns what it was. ErrUnknown: no live block begins there.
func (d *Device) Free(addr mem.Addr) (engine.Block, error) { return d.free(addr, false) }

// FreeDeferred is Free of what the program freed some time ago: streams that used the block may be
// gone by now.
func (d *Device) FreeDeferred(addr mem.Addr) (engine.Block, error) { return d.free(addr, true) }

func (d *Device) free(addr mem.Addr, deferred bool) (engine.Block, error) {
	x := d.messages.Get().(*messages)
	defer d.messages.Put(x)
	m := &x.free
	*m = pool.Free{Answer: m.Answer.Again(), Addr: addr, Deferred: deferred}
	d.system.Ask(d.pool, m)
	return m.Freed, m.Err
}

// Record says that another stream uses the block at addr.
func (d *Device) Record(addr mem.Addr, id mem.StreamID) error {
	return d.onPool(func(p *pool.Pool) error { return p.Use(addr, id) }, nil)
}

// Find returns the start and size of the live block that contains addr.
func (d *Device) Find(addr mem.Addr) (at mem.Addr, size mem.Bytes, err error) {
	find := func(p *pool.Pool) error {
		b, err := p.Find(addr)
		at, size = b.Addr, b.Size
		return err
	}
	err = d.onPool(find, find)
	return at, size, err
}

// Plan returns the latest plan for a later run: the last one made or, before that, the
// one this device was opened with; nil if there is none. It is immutable.
func (d *Device) Plan() *plan.Plan { return d.latest.Load() }
