package actors

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/actors/device"
	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream"
	"stalloc/stream/wish"
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
	largest    mem.Bytes  // no block can be larger
	inbox      inbox      // the planner's
	unobserved unobserved

	lanes      atomic.Pointer[[]*lane]
	arenas     atomic.Pointer[[]*arena]
	mu         sync.Mutex    // guards changes of lanes and arenas
	base       mem.Addr      // of the address window
	generation atomic.Uint64 // plans activated
	traffic    atomic.Uint64 // requests and frees that reached the pool
	auto       autoSteps
	late       lateBoundary
	opening    *opening // nil: no cache
	closing    atomic.Bool
	background sync.WaitGroup // goroutines that ask the actors, make plans or read files
	steps      atomic.Uint64  // boundaries
	room       atomic.Int64   // bytes that the steps lately needed at their peaks
	floor      atomic.Int64   // bytes that were live all through the last step
	most       atomic.Int64   // handles to hold before arenas are given up; 0: no bound
	latest     atomic.Pointer[plan.Plan]
	layouts    layouts

	// Messages that come with every miss, to be used again. Each device has its
	// own: a message's wake-up channel belongs to those who wait on it.
	serves, allocs, frees sync.Pool
}

// ask sends a message that is answered, and waits for the answer. As a rule the
// actor has run on this very thread when Send returns.
func (d *Device) ask(to *actor.PID, q question) {
	q.slot().reset()
	d.root.Send(to, q)
	q.slot().wait()
}

// Serve serves a request that the quick case did not: from the stream's tape, a
// hit, which is counted and observed already, or from the pool. The first request
// of a stream makes the stream known.
func (d *Device) Serve(port Port, asked mem.Bytes) (addr mem.Addr, hit bool, err error) {
	if asked > d.largest {
		return 0, false, d.tooLarge()
	}
	l := d.laneOf(port)
	if l == nil {
		d.ask(d.supervisor, &admitRequest{})
		l = d.laneOf(port)
	}
	if l != nil && d.opts.Range != nil {
		return d.serveWish(port, l, asked)
	}
	var ticket stream.Ticket
	if l != nil {
		if addr, ticket = d.lookUp(port, l, asked); addr != 0 {
			return addr, true, nil
		}
	}
	if addr, err = d.Alloc(port.ID(), 0, asked); err == nil && ticket != 0 {
		l.hold(addr, ticket)
	}
	return addr, false, err
}

// lookUp looks for a request's slot on the stream's tape, or for a hole of the
// arena. If there is neither it may return a ticket for the pool's block.
func (d *Device) lookUp(port Port, l *lane, asked mem.Bytes) (mem.Addr, stream.Ticket) {
	if !d.auto.marked.Load() && d.auto.before(port, l, asked) || d.reached() {
		d.endFound()
	}
	if o := d.opening; o != nil && !o.over.Load() && l.ordinal == 0 && !l.active.Load() {
		o.next(l, asked)
	}
	if !l.active.Load() {
		return 0, 0
	}
	m := d.serves.Get().(*serveRequest)
	defer d.serves.Put(m)
	m.asked, m.addr, m.ticket, m.lost, m.lacks = asked, 0, 0, false, 0
	if d.ask(l.pid, m); m.lacks > 0 {
		d.ask(d.supervisor, &growRequest{lane: l, need: m.lacks})
		d.ask(l.pid, m)
	}
	if m.err != nil {
		d.log.Error("a stream could not look a request up; the pool serves it", zap.Error(m.err))
		return 0, 0
	}
	if m.lost {
		d.ask(d.supervisor, &lostRequest{lane: l})
	}
	return m.addr, m.ticket
}

// Alloc asks the pool for a block of size bytes on a stream. Private pools
// (pool not 0) share memory with nothing else. Before it fails for want of
// memory, the arenas of plans are given up for this step. The error matches
// driver.ErrOutOfMemory if the device is full, ErrBroken if the pool is.
func (d *Device) Alloc(id mem.StreamID, pool uint64, size mem.Bytes) (mem.Addr, error) {
	addr, _, err := d.allocAt(id, pool, size, 0, nil)
	return addr, err
}

// allocAt is Alloc with a wish where the block is to lie, and says whether it does. planned
// is set if the request was foreseen.
func (d *Device) allocAt(id mem.StreamID, pool uint64, size mem.Bytes, wish mem.Addr, planned *bool) (mem.Addr, bool, error) {
	if size > d.largest {
		return 0, false, d.tooLarge()
	}
	d.traffic.Add(1)
	m := d.allocs.Get().(*allocRequest)
	defer d.allocs.Put(m)
	m.size, m.stream, m.pool, m.whole, m.after, m.most, m.addr, m.wish, m.wished = size, id, pool, false, 0, int(d.most.Load()), 0, wish, false
	d.ask(d.pool, m)
	if m.most != 0 && isRefused(m.err, engine.RefusedMost) {
		// An arena with as much idle memory is to be used before the pool grows. If
		// there is none, it takes more memory than ever before, and for the rest of
		// the step that is not looked into again.
		d.ask(d.supervisor, &lostRequest{idle: max(size, mem.HandleSize)})
		d.most.Store(0)
		m.most, m.addr = 0, 0
		d.ask(d.pool, m)
	}
	if errors.Is(m.err, driver.ErrOutOfMemory) {
		if all := (&lostRequest{}); d.gaveUp(all) {
			m.addr = 0
			d.ask(d.pool, m)
		}
	}
	if errors.Is(m.err, driver.ErrOutOfMemory) {
		return 0, false, fmt.Errorf("%w\n%s", m.err, d.Explain())
	}
	if planned != nil {
		*planned = *planned || m.wished
	}
	return m.addr, m.hit, m.err
}

// tooLarge is the error of a request that the device could not serve if it were empty,
// a shape with a zero too much: neither a tape nor the pool hears of it, and no arena is
// given up for it.
func (d *Device) tooLarge() error {
	return fmt.Errorf("%w\n%s", &RefusedError{Reason: engine.RefusedSize}, d.Explain())
}

func (d *Device) gaveUp(m *lostRequest) bool {
	d.ask(d.supervisor, m)
	return m.err == nil && m.gave
}

// serveWish serves a request of a stream in its range, where the stream wishes if the
// bytes are free there, which is a hit.
func (d *Device) serveWish(port Port, l *lane, asked mem.Bytes) (mem.Addr, bool, error) {
	if !d.auto.marked.Load() && d.auto.before(port, l, asked) {
		d.endFound()
	}
	n := mem.Round(asked)
	small := 0
	if n <= d.opts.Range.SmallLimit {
		small = 1
	}
	port.Lock()
	tape := &l.wishes[small]
	if tape.State == nil {
		*tape = wish.New(nil)
	}
	planned := len(tape.Entries) > 0
	entry := tape.Next(uint64(n / mem.Grain))
	port.Unlock()
	var at mem.Addr
	if entry.Place() != 0 {
		at = d.base + mem.Addr(entry.Place())*mem.Addr(mem.Grain)
	}
	addr, hit, err := d.allocAt(port.ID(), 0, asked, at, &planned)
	if err != nil || !planned {
		return addr, false, err
	}
	port.Lock()
	defer port.Unlock()
	if !hit {
		l.misses++
		return addr, false, nil
	}
	l.hits++
	port.HandOut(addr, asked)
	return addr, true, nil
}

// Free gives a block of the pool back, or a guest of an arena, where the quick
// case finds only slots. ErrUnknown: it is neither.
func (d *Device) Free(addr mem.Addr) (Freed, error) {
	if a := d.arenaOf(addr); a != nil {
		if f := a.free(addr); f.Slot != stream.None || f.Guest {
			if f.Pinned {
				d.FreePinned(addr, f.Asked)
			}
			return Freed{Size: mem.Round(f.Asked), Asked: f.Asked, Stream: a.lane.port.ID()}, nil
		}
	}
	d.traffic.Add(1)
	for _, l := range *d.lanes.Load() {
		if l.waiting.Load() > 0 {
			l.ended(addr)
		}
	}
	m := d.frees.Get().(*freeRequest)
	defer d.frees.Put(m)
	m.addr, m.arena, m.freed = addr, false, Freed{}
	if d.ask(d.pool, m); m.err == nil && !d.auto.marked.Load() {
		d.auto.freed(&m.freed)
	}
	return m.freed, m.err
}

// Record says that another stream uses the block at addr, of the tape or of the
// pool.
func (d *Device) Record(addr mem.Addr, id mem.StreamID) error {
	if a := d.arenaOf(addr); a != nil {
		if id == a.lane.port.ID() || a.pin(addr, id) {
			return nil
		}
	}
	m := &recordRequest{addr: addr, stream: id}
	d.ask(d.pool, m)
	return m.err
}

// FreePinned ends the program's use of a slot that other streams use too. The
// slot stays live until they are past this point.
func (d *Device) FreePinned(addr mem.Addr, asked mem.Bytes) {
	a := d.arenaOf(addr)
	if a == nil { // the pool has taken the slot over since, and knows its streams
		_, _ = d.Free(addr)
		return
	}
	rounded := mem.Round(asked)
	a.lane.port.Pending(rounded)
	d.ask(d.pool, &fenceRequest{arena: a, addr: addr, rounded: rounded, streams: a.users(addr)})
}

// Step marks a step boundary: new plans become active here, or shortly behind (see
// lateBoundary), and nowhere else. A program that never calls it has its steps found
// in its requests.
func (d *Device) Step() error {
	d.auto.marked.Store(true)
	return d.mark()
}

func (d *Device) endStep() error {
	m := &stepRequest{}
	d.ask(d.supervisor, m)
	return m.err
}

// endFound ends a step that was found in the requests. Whether it can is no reason to
// refuse the request behind it.
func (d *Device) endFound() {
	if err := d.endStep(); err != nil {
		d.log.Error("a step that was found in the requests could not be ended", zap.Error(err))
	}
}

// Plan returns the latest plan: the last one made or, before that, the one this
// device was opened with; nil if there is none. It is immutable.
func (d *Device) Plan() *plan.Plan { return d.latest.Load() }
