package actors

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/actors/device"
	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/plan"
)

// Device is the allocator of one GPU. Its methods may be called from any thread.
type Device struct {
	opts       Options
	log        *zap.Logger
	system     *actor.ActorSystem
	root       *actor.RootContext
	dev        device.Device
	host       Host
	pool       *actor.PID
	supervisor *actor.PID
	planner    *actor.PID // nil: no planning
	native     *native    // nil: what PyTorch's allocator would reserve is not asked
	simulator  *actor.PID // of it
	largest    mem.Bytes  // no block can be larger
	small      mem.Bytes  // requests up to this have an arena of their own
	base       mem.Addr   // of the address window

	streams  atomic.Pointer[[]*stream] // in the order of first requests
	streamAt sync.Map                  // by stream
	adopted  int                       // streams so far; only the supervisor knows
	unused   []*streamActor            // of streams that are forgotten; as well
	gone     struct {
		hits, misses uint64 // of streams that are forgotten; under the host's lock
	}
	waiting    atomic.Int64           // the weight of steps that the planner has not looked at yet
	dropped    atomic.Uint64          // events of steps that it never will
	generation atomic.Uint64          // plans activated
	steps      atomic.Uint64          // boundaries
	marked     atomic.Bool            // the program marks its steps
	retries    atomic.Uint64          // see PoolStats
	tooLarge   atomic.Pointer[string] // what was said of a step that will not fit; nil: nothing
	latest     atomic.Pointer[plan.Plan]
	closing    atomic.Bool
	planning   sync.Once // ended
	retiring   sync.Mutex
	retired    atomic.Bool
	background sync.WaitGroup // goroutines that make plans or read and write files

	// Messages that come with every request, to be used again. Each device has its
	// own: a message's wake-up channel belongs to those who wait on it.
	allocs, frees sync.Pool
}

// ask sends a message that is answered, and waits for the answer. As a rule the
// actor has run on this very thread when Send returns.
func (d *Device) ask(to *actor.PID, q question) {
	q.slot().reset()
	d.root.Send(to, q)
	q.slot().wait()
}

// tell has the supervisor or the pool do something.
func tell[Actor any](d *Device, to *actor.PID, do func(Actor) error) error {
	m := &order[Actor]{do: do}
	d.ask(to, m)
	return m.err
}

// Serve returns a block of at least asked bytes for work on a stream, 0 < asked. Private
// pools (pool not 0) share memory with nothing else and are not planned. The error matches
// driver.ErrOutOfMemory if the device is full, ErrBroken if the range is.
func (d *Device) Serve(id mem.StreamID, pool uint64, asked mem.Bytes) (mem.Addr, error) {
	if asked > d.largest {
		return 0, d.explained(&RefusedError{Reason: engine.RefusedSize}, id, asked)
	}
	m := d.allocs.Get().(*allocRequest)
	defer d.allocs.Put(m)
	*m = allocRequest{answer: answer{wake: m.wake}, size: asked, stream: id, pool: pool,
		hurried: !d.host.MayWait()}
	if pool == 0 {
		d.look(id, m)
	} else {
		d.native.private()
	}
	for d.ask(d.pool, m); m.again; d.ask(d.pool, m) {
		m.again = false // or whoever may not serve it any more would have it ask for ever
		if !m.hurried || m.last {
			d.opts.Clock.Sleep(lookAgain)
		}
	}
	if errors.Is(m.err, driver.ErrOutOfMemory) {
		return 0, d.explained(m.err, id, asked)
	}
	return m.addr, m.err
}

// look asks the stream's actor where a request is planned. A step that ends before it is
// ended first.
func (d *Device) look(id mem.StreamID, m *allocRequest) {
	l := d.streamOf(id)
	if l == nil {
		_ = tell(d, d.supervisor, func(s *supervisor) error { return s.admit(id) })
		if l = d.streamOf(id); l == nil {
			return
		}
	}
	if !d.marked.Load() && d.overdue() {
		d.endFound()
	}
	if m.small = smallOf(mem.Round(m.size), d.small); !l.planned.Load() {
		return
	}
	if d.ask(l.pid, m); m.err != nil {
		d.log.Error("a stream could not look a request up; it is served without a planned offset",
			zap.Error(m.err))
	}
}

// Free gives a block back, and returns what it was. ErrUnknown: no live block begins there.
func (d *Device) Free(addr mem.Addr) (engine.Block, error) { return d.free(addr, false) }

// FreePast is Free of what the program freed some time ago: streams that used the block may be
// gone by now.
func (d *Device) FreePast(addr mem.Addr) (engine.Block, error) { return d.free(addr, true) }

func (d *Device) free(addr mem.Addr, past bool) (engine.Block, error) {
	m := d.frees.Get().(*freeRequest)
	defer d.frees.Put(m)
	*m = freeRequest{answer: answer{wake: m.wake}, addr: addr, past: past}
	d.ask(d.pool, m)
	return m.freed, m.err
}

// Record says that another stream uses the block at addr.
func (d *Device) Record(addr mem.Addr, id mem.StreamID) error {
	return d.rare(func(p *pool) error {
		p.seen(id)
		_, err := p.run(engine.Event{Kind: engine.EvRecord, Addr: addr, Stream: id})
		return err
	}, nil)
}

// Step marks a step boundary: new plans become active here and nowhere else. For a program
// that never calls it a step ends every crudeStep events: nothing is planned, but memory
// is laid out as if they were steps.
func (d *Device) Step() error {
	if d.retired.Load() {
		return nil
	}
	d.marked.Store(true)
	return d.endStep()
}

func (d *Device) endStep() error { return tell(d, d.supervisor, (*supervisor).step) }

// endFound ends a step that was found in the requests. Whether it can is no reason to
// refuse the request after it.
func (d *Device) endFound() {
	if err := d.endStep(); err != nil {
		d.log.Error("a step that was found in the requests could not be ended", zap.Error(err))
	}
}

// Plan returns the latest plan for a later run: the last one made or, before that, the
// one this device was opened with; nil if there is none. It is immutable.
func (d *Device) Plan() *plan.Plan { return d.latest.Load() }
