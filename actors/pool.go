package actors

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/actors/device"
	"stalloc/actors/device/sleeper"
	"stalloc/engine"
	"stalloc/engine/onerange"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/internal/without"
	"stalloc/live/perfetto"
	"stalloc/stream/schedule"
)

// PoolStats is what the pool knows about physical memory.
type PoolStats struct {
	Reserved, PeakReserved mem.Bytes
	Load                   mem.Bytes // in live blocks
	Pending                mem.Bytes // freed, waiting for other streams
	LargestFree            mem.Bytes // free range as it is mapped; 0 where the policy does not know
	DriverCalls            uint64
	DriverTime             time.Duration // spent in the driver, as measured here
	// requests that were served only after the driver refused memory or streams were waited for
	Retries uint64
	// fences that the driver refused, and that memory still waits for
	Late  int
	Waits WaitStats
	// given back to the driver for a while, and kept of it on the host
	Asleep, Backup mem.Bytes
	Engine         engine.Stats
}

// pool is the dynamic-pool actor: it owns the range of one device and is the only one
// that changes the device's memory.
type pool struct {
	dev      *sleeper.Device
	log      *zap.Logger
	host     Host
	eng      policy
	ranged   *onerange.Engine // the same; nil where it is GMLake
	handles  []driver.Handle  // by engine.Index; 0: released
	base     mem.Addr
	window   mem.Bytes
	total    mem.Bytes // the device's memory, 0 where it cannot be had
	largest  mem.Bytes // no block can be larger
	small    mem.Bytes // requests up to this have an arena of their own
	ops      []engine.Op
	fences   fences
	patience patience
	hasty    bool                          // nobody waits
	waits    map[driver.Fence]engine.Block // freed, and still used by other streams
	peak     mem.Bytes                     // of handles since the last reset
	calls    uint64
	time     time.Duration
	clock    Clock
	asked    time.Duration // when fences were last polled
	marked   *atomic.Bool  // the program marks its steps
	retries  *atomic.Uint64
	waited   bool          // the last request waited for streams, or the device was full
	serving  *allocRequest // nil: none
	unsynced bool          // the last wait for the device was refused, or failed
	past     bool          // what is freed now was freed some time ago
	idling   bool          // it sleeps: no stream is at work with it
	broken   error
	retired  bool                  // it serves no more
	idle     mem.Bytes             // freed since then, and not given back
	trace    *perfetto.Trace       // nil: nobody asked for one
	ordinal  int                   // of the device, in it
	limit    mem.Bytes             // that the program has set, 0: none
	most     mem.Bytes             // that the settings and the device allow, 0: all
	ended    map[mem.Addr]struct{} // blocks freed since it broke
	gone     mem.Bytes             // in them
	peers    []int                 // other devices that have it too
	asleep   map[uint64]*backup    // by the pools that sleep
	regions  map[uint64]struct{}   // that may have memory here
	giving   sync.WaitGroup        // backups that are given up behind a Resume
	pinnedMu sync.Mutex
	pinned   []*backup // given up, and not unpinned yet
	saidSlow sync.Once // that they cannot be pinned
	exported map[mem.Addr]mem.Bytes
}

// leastWindow is what a window has that is set to less.
const leastWindow = 64 * mem.MiB

// newPool reserves the address window: the largest the driver gives.
func newPool(dev device.Device, host Host, opts *Options) (*pool, error) {
	cfg := opts.Range
	p := &pool{dev: sleeper.New(dev), log: opts.Log, host: host, clock: opts.Clock,
		limit: cfg.Limit, hasty: opts.Without.Has(without.Wait), trace: opts.Trace, ordinal: opts.Ordinal, fences: fences{late: map[mem.StreamID][]waiting{}}, waits: map[driver.Fence]engine.Block{}, asleep: map[uint64]*backup{}, regions: map[uint64]struct{}{}, exported: map[mem.Addr]mem.Bytes{}}
	// More than the device has need not be tried: the failed request would first
	// take all there is.
	_, total, err := dev.Memory()
	if err == nil {
		p.total = total
	}
	if err == nil && (cfg.Limit == 0 || cfg.Limit > total) {
		cfg.Limit = total
	}
	p.most, cfg.Limit = cfg.Limit, 0 // set with what sleeps: bound
	for p.window = max(cfg.Window, leastWindow) &^ (mem.HandleSize - 1); ; p.window = p.window / 2 &^ (mem.HandleSize - 1) {
		if p.base, err = dev.Reserve(p.window); err == nil {
			cfg.Base, cfg.Window = p.base, p.window
			p.eng = newPolicy(cfg, opts, host)
			p.bound()
			p.ranged, _ = p.eng.(*onerange.Engine)
			p.small = cfg.SmallLimit
			p.largest = min(p.window/2, onerange.Largest)
			if total > 0 {
				p.largest = min(p.largest, total)
			}
			return p, nil
		}
		if p.window < 128*mem.GiB {
			break
		}
	}
	return nil, fmt.Errorf("no address space for the pool (set STALLOC_CONF=window:SIZE to ask for less): %w", err)
}

// ErrBroken says that the pool lost track of its state and serves nothing more.
var ErrBroken = errors.New("the pool is broken")

// Receive implements actor.Actor. It answers whatever happens.
func (p *pool) Receive(ctx actor.Context) {
	if q, ok := ctx.Message().(question); ok {
		q.slot().reply(p.answer(q))
	}
}

// answer does what a message asks for. A panic breaks the pool: the host serves nothing more
// from the range.
func (p *pool) answer(q question) (err error) {
	p.host.Lock()
	defer func() {
		p.host.Allow(p.terms())
		p.host.Unlock()
	}()
	defer func() {
		if r := recover(); r != nil {
			err = p.breaks(r)
		}
	}()
	if p.broken != nil {
		return p.outlive(q)
	}
	p.ask()
	switch m := q.(type) {
	case *allocRequest:
		return p.alloc(m)
	case *freeRequest:
		return p.free(m)
	case *order[*pool]:
		return m.do(p)
	}
	return nil
}

// allowedWhilePending is how many requests and frees the host may serve while memory waits for
// fences that the driver must be asked about.
const allowedWhilePending = 32

// mostLooks is how often that is doubled while memory waits for a stream that is not seen again.
const mostLooks = 7

// terms are what the host may serve until the next message.
func (p *pool) terms() Terms {
	t := Terms{Left: math.MaxUint64, Most: p.largest}
	switch {
	case p.ranged == nil || p.broken != nil || p.retired || p.sleeps(0): // everything is asked here
		t.Left = 0
	case p.fences.urgent > 0:
		t.Left = allowedWhilePending
	case p.fences.lateAll > 0: // for a request of that stream, which may be gone
		t.Left = allowedWhilePending << min(p.fences.looks, mostLooks)
	case !p.marked.Load(): // a request is to come now and then, to end a step
		t.Left = crudeStep
	}
	return t
}

func (p *pool) alloc(m *allocRequest) error {
	if p.retired {
		return ErrRetired
	}
	if p.sleeps(m.pool) {
		return ErrAsleep
	}
	p.holds(m.pool)
	p.serving = m
	defer func() { p.serving = nil }()
	p.seen(m.stream)
	p.mark(m.stream)
	if p.ranged != nil && p.host.Lasts(m.stream) {
		p.ranged.Lasting(m.stream)
	}
	if m.last && p.awaits(m) {
		return nil
	}
	before := p.eng.Reserved()
	p.waited, p.unsynced = m.last, false
	grant, err := p.place(m)
	if held := p.eng.Reserved(); errors.Is(err, driver.ErrOutOfMemory) && p.trimRegions() == nil &&
		p.eng.Reserved() < held {
		grant, err = p.place(m)
	}
	if errors.Is(err, driver.ErrOutOfMemory) && p.unsynced {
		grant, err = p.begs(m, err)
	}
	if m.again {
		return nil
	}
	if err != nil {
		if p.eng.Reserved() > before { // what the attempt took in vain
			_, _ = p.run(engine.Event{Kind: engine.EvTrim, Vain: true})
		}
		return err
	}
	if p.waited {
		p.retries.Add(1)
	}
	if m.addr = grant.Addr; m.pool != 0 {
		return nil
	}
	kind := schedule.EventMiss
	if m.planned != 0 && m.addr == m.planned {
		kind = schedule.EventHit
	}
	p.host.Count(m.stream, m.small, kind == schedule.EventHit)
	p.note(kind, m.addr, grant.Size, m.stream)
	return nil
}

// place has the engine serve a request. Where the bytes that are best wait for fences that
// may have passed, it asks the driver first, and where memory would have to be made, it may wait.
func (p *pool) place(m *allocRequest) (engine.Op, error) {
	before := p.eng.Reserved()
	ev := engine.Event{Kind: engine.EvAlloc, Req: 1, Size: m.size, Stream: m.stream, Pool: m.pool,
		Planned: m.planned}
	ev.Poll = p.ranged != nil && p.fences.n+p.fences.lateAll > 0
	ev.Lend = p.mayBorrow(m)
	grant, err := p.run(ev)
	lenders := p.borrows(m)
	if isRefused(err, engine.RefusedPending) {
		p.look(lenders)
		ev.Poll, ev.Wait = false, !p.hasty && p.patient(m)
		grant, err = p.run(ev)
		p.patience.lends += len(p.borrows(m))
	}
	if m.again = isRefused(err, engine.RefusedPending); m.again {
		m.waited = true
		return engine.Op{}, nil
	}
	p.waitedFor(m, err == nil && p.eng.Reserved() > before)
	return grant, err
}

// note logs what happened to a block of a stream.
func (p *pool) note(kind schedule.EventKind, at mem.Addr, size mem.Bytes, id mem.StreamID) {
	if p.ranged != nil {
		p.host.Note(schedule.EventOf(kind, uint64(at), uint64(size/mem.Grain),
			p.ranged.Ordinal(id)))
	}
}

func (p *pool) free(m *freeRequest) error {
	b, ok := p.eng.Lookup(m.addr)
	if !ok || b.Addr != m.addr || b.Pending {
		return ErrUnknown
	}
	awake := p.unexport(m.addr)
	p.past, p.idling = m.past, p.sleeps(b.Pool) && !awake
	_, err := p.run(engine.Event{Kind: engine.EvFree, Addr: m.addr})
	p.past, p.idling = false, false
	if err != nil {
		return err
	}
	m.freed = b
	kind := schedule.EventFree
	for _, op := range p.ops {
		if op.Kind == engine.OpRecord && op.Addr == 0 {
			p.waits[op.Fence] = b
			kind = schedule.EventLate
		}
	}
	if b.Pool == 0 {
		p.note(kind, m.addr, b.Size, b.Stream)
	}
	if p.retired {
		p.freedRetired(b.Size)
	}
	return nil
}
