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
	"stalloc/engine/gmlake"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream"
)

// Options set a device up. The zero value plans beside the program, logs
// nothing and reserves what the engine's own defaults say.
type Options struct {
	Log    *zap.Logger
	Engine engine.Config // the zero value: engine.DefaultConfig
	// GMLake, if not nil, serves the pool by GMLake's algorithm instead of the
	// engine's. Addresses and limit are those of Engine.
	GMLake *gmlake.Config
	NoPlan bool // serve everything from the pool
	// Always makes a plan after every step and serves it whatever it is worth: for
	// tests of what must hold under any plan.
	Always bool
	// Inline plans at the boundary itself, on the thread that ends the step: for
	// replays, where no time passes between steps.
	Inline bool
	// Plan is served from the first request on: that of an earlier run.
	Plan *plan.Plan
	// Cache names the folder in which runs leave their plans for later ones, ""
	// for none. It is made when there is something to leave.
	Cache string
	// Neighbours says in a sentence or two who else holds memory of the device.
	// It is asked beside the program at the start, if the answer would be
	// logged, and when memory has run out. Nil, and errors, cost that sentence.
	Neighbours func() (string, error)
}

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

	lanes      atomic.Pointer[[]*lane]
	arenas     atomic.Pointer[[]*arena]
	mu         sync.Mutex // guards changes of lanes and arenas
	generation atomic.Uint64
	traffic    atomic.Uint64 // requests and frees that reached the pool
	auto       autoSteps
	opening    *opening // nil: no cache
	closing    atomic.Bool
	background sync.WaitGroup // goroutines that ask the actors, or make plans
	steps      atomic.Uint64
	room       atomic.Int64 // bytes that the steps lately needed at their peaks
	most       atomic.Int64 // handles to hold before arenas are given up; 0: no bound
	latest     atomic.Pointer[plan.Plan]

	// Messages that come with every miss, to be used again. Each device has its
	// own: a message's wake-up channel belongs to those who wait on it.
	serves, allocs, frees sync.Pool
}

// Open starts the actors of a device. Close ends them.
func Open(dev device.Device, host Host, opts Options) (*Device, error) {
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	if opts.Engine == (engine.Config{}) {
		opts.Engine = engine.DefaultConfig()
	}
	p, err := newPool(dev, opts.Engine, opts.GMLake, opts.Log)
	if err != nil {
		return nil, err
	}
	d := &Device{opts: opts, log: opts.Log, dev: dev, host: host}
	p.borrow(host, d.unwatched, &d.traffic)
	d.serves.New = func() any { return new(serveRequest) }
	d.allocs.New = func() any { return new(allocRequest) }
	d.frees.New = func() any { return new(freeRequest) }
	d.latest.Store(opts.Plan)
	d.lanes.Store(&[]*lane{})
	d.arenas.Store(&[]*arena{})
	d.system = newSystem(opts.Log)
	d.root = d.system.Root
	d.pool = d.root.Spawn(onCaller(func() actor.Actor { return p }))
	sup := &supervisor{d: d, start: opts.Plan, earlier: opts.Plan}
	d.supervisor = d.root.Spawn(onCaller(func() actor.Actor { return sup }))
	if !opts.NoPlan {
		pl := newPlanner(d, opts.Plan)
		props := beside
		if opts.Inline {
			props = onCaller
		}
		d.planner = d.root.Spawn(props(func() actor.Actor { return pl }))
	}
	if opts.Cache != "" && opts.Plan == nil && !opts.NoPlan {
		d.opening = newOpening(d, newCache(opts.Cache))
	}
	if opts.Neighbours != nil && d.log.Core().Enabled(zap.InfoLevel) {
		go d.logNeighbours()
	}
	return d, nil
}

// ask sends a message that is answered, and waits for the answer. As a rule the
// actor has run on this very thread when Send returns.
func (d *Device) ask(to *actor.PID, q question) {
	q.slot().reset()
	d.root.Send(to, q)
	q.slot().wait()
}

// adopt starts an actor for every stream that has appeared.
func (d *Device) adopt() []*lane {
	lanes := *d.lanes.Load()
	ports := d.host.Ports()
	if len(lanes) >= len(ports) {
		return lanes
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	lanes = append([]*lane(nil), *d.lanes.Load()...)
	for i := len(lanes); i < len(ports); i++ {
		l := &lane{port: ports[i], ordinal: i, tuning: stream.Tunings[0]}
		l.pid = d.root.Spawn(onCaller(func() actor.Actor { return &streamActor{lane: l} }))
		lanes = append(lanes, l)
	}
	d.lanes.Store(&lanes)
	return lanes
}

func (d *Device) laneOf(port Port) *lane {
	for _, l := range *d.lanes.Load() {
		if l.port.ID() == port.ID() {
			return l
		}
	}
	return nil
}

func (d *Device) remember(a *arena) {
	d.mu.Lock()
	defer d.mu.Unlock()
	arenas := append(append([]*arena(nil), *d.arenas.Load()...), a)
	d.arenas.Store(&arenas)
}

func (d *Device) forget(gone *arena) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var arenas []*arena
	for _, a := range *d.arenas.Load() {
		if a != gone {
			arenas = append(arenas, a)
		}
	}
	d.arenas.Store(&arenas)
}

// arenaOf returns the arena that contains an address, or nil.
func (d *Device) arenaOf(addr mem.Addr) *arena {
	for _, a := range *d.arenas.Load() {
		if a.contains(addr) {
			return a
		}
	}
	return nil
}

var errNoSuchLimit = errors.New("a memory fraction lies between 0 and 1")

// Serve serves a request that the quick case did not: from the stream's tape, a
// hit, which is counted and observed already, or from the pool. The first request
// of a stream makes the stream known.
func (d *Device) Serve(port Port, asked mem.Bytes) (addr mem.Addr, hit bool, err error) {
	l := d.laneOf(port)
	if l == nil {
		d.ask(d.supervisor, &admitRequest{})
		l = d.laneOf(port)
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
	if !d.auto.marked.Load() && d.auto.before(port, l, asked) {
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
	d.traffic.Add(1)
	m := d.allocs.Get().(*allocRequest)
	defer d.allocs.Put(m)
	m.size, m.stream, m.pool, m.whole, m.after, m.most, m.addr = size, id, pool, false, 0, int(d.most.Load()), 0
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
		return 0, fmt.Errorf("%w\n%s", m.err, d.Explain())
	}
	return m.addr, m.err
}

func (d *Device) gaveUp(m *lostRequest) bool {
	d.ask(d.supervisor, m)
	return m.err == nil && m.gave
}

// Free gives a block of the pool back, or a guest of an arena, where the quick
// case finds only slots. ErrUnknown: it is neither.
func (d *Device) Free(addr mem.Addr) (Freed, error) {
	if a := d.arenaOf(addr); a != nil {
		if f := a.free(addr); f.Slot != stream.None || f.Guest {
			if f.Pinned {
				d.FreePinned(addr, f.Asked)
			}
			return Freed{Size: mem.Round(f.Asked), Asked: f.Asked, Stream: a.lane.port.ID(), Pending: f.Pinned}, nil
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

// Step is a step boundary: new plans become active here and nowhere else. A
// program that never calls it has its steps found in its requests.
func (d *Device) Step() error {
	d.auto.marked.Store(true)
	return d.endStep()
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

// Find returns the start and size of the pool's block that contains addr.
func (d *Device) Find(addr mem.Addr) (mem.Addr, mem.Bytes, error) {
	m := &poolRequest{verb: verbFind, addr: addr}
	d.ask(d.pool, m)
	return m.addr, m.size, m.err
}

// Owner returns the stream of the pool's block at addr.
func (d *Device) Owner(addr mem.Addr) (mem.StreamID, error) {
	m := &poolRequest{verb: verbFind, addr: addr}
	d.ask(d.pool, m)
	if m.err == nil && m.addr != addr {
		m.err = ErrUnknown
	}
	return m.stream, m.err
}

// Trim gives idle handles back to the driver; with a private pool's number, what
// that pool no longer uses.
func (d *Device) Trim(pool uint64) error { return d.rare(&poolRequest{verb: verbTrim, pool: pool}) }

// Limit bounds the physical memory taken to a fraction of the device's.
func (d *Device) Limit(fraction float64) error {
	if !(fraction > 0 && fraction <= 1) {
		return errNoSuchLimit
	}
	_, total, err := d.dev.Memory()
	if err != nil {
		return err
	}
	limit := mem.Bytes(0)
	if fraction < 1 {
		limit = mem.Bytes(fraction * float64(total))
	}
	return d.rare(&poolRequest{verb: verbLimit, limit: limit})
}

// ResetPeak lets PeakReserved start over from what is reserved now.
func (d *Device) ResetPeak() error { return d.rare(&poolRequest{verb: verbResetPeak}) }

// Check recounts the engine's state and every tape.
func (d *Device) Check() error {
	errs := []error{d.rare(&poolRequest{verb: verbCheck})}
	for _, a := range *d.arenas.Load() {
		a.lane.port.Lock()
		errs = append(errs, a.tape.Check())
		a.lane.port.Unlock()
	}
	return errors.Join(errs...)
}

// Close waits for what goes on beside the program, a plan in the making included,
// stops the actors and closes the device. Live blocks end with it.
func (d *Device) Close() error {
	if d.closing.Swap(true) {
		return fmt.Errorf("%w: the device was closed before", ErrBroken)
	}
	if d.planner != nil {
		// It begins nothing new once it has stopped. A planner that takes longer
		// to stop than the future waits is one that will not begin anything.
		_ = d.root.StopFuture(d.planner).Wait()
	}
	d.background.Wait()
	err := d.rare(&poolRequest{verb: verbClose})
	d.system.Shutdown()
	return err
}

func (d *Device) rare(m *poolRequest) error {
	d.ask(d.pool, m)
	return m.err
}
