package actors

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/actors/device"
	"stalloc/engine"
	"stalloc/engine/onerange"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// PoolStats is what the pool knows about physical memory.
type PoolStats struct {
	Reserved, PeakReserved mem.Bytes
	Arenas                 mem.Bytes // in arenas of plans
	Load                   mem.Bytes // in blocks of the pool, arenas left out
	Pending                mem.Bytes // freed, waiting for other streams
	StepPending            mem.Bytes // the most of that since the last boundary
	LargestFree            mem.Bytes // free range as it is mapped; 0 where the policy does not know
	DriverCalls            uint64
	DriverTime             time.Duration // spent in the driver, as measured here
	Retries                uint64        // requests that were served only after the driver refused memory or streams were waited for
	Unfenced               uint64        // fences that the driver refused to record or to tell about
	Late                   int           // of those, the ones that memory still waits for
	Engine                 engine.Stats
}

// pool is the dynamic-pool actor: it owns the policy of one device and is the
// only one that changes the device's memory.
type pool struct {
	dev      device.Device
	log      *zap.Logger
	eng      policy
	handles  []driver.Handle // by engine.Index
	base     mem.Addr
	window   mem.Bytes
	largest  mem.Bytes // no block can be larger
	ops      []engine.Op
	fences   fences
	patched  mem.Bytes // the least block that may lie in a private view
	arenas   mem.Bytes
	peak     mem.Bytes // of handles since the last reset
	calls    uint64
	time     time.Duration
	clock    Clock
	stepped  stepTimes
	asked    int
	plan     func(*foreseen) // has the planner lay a forecast out; nil: nobody plans
	seen     *stepLog        // nil: nobody wants to know
	small    mem.Bytes       // requests up to this have a space of their own
	retries  uint64
	waited   bool      // the last request waited for streams, or the device was full
	unwaited int       // streams that the event at hand could not wait for
	pending  mem.Bytes // the most since the last boundary
	broken   error
	limit    mem.Bytes             // that the program has set, 0: none
	ended    map[mem.Addr]struct{} // blocks freed since it broke
	gone     mem.Bytes             // in them
	// Blocks that were pinned slots of an arena, freed before the pool took them over:
	// they wait for the fences of the slot.
	freed  map[mem.Addr]bool
	loan   loan
	usable pageSet // pages that the device has access to
	peers  []int   // other devices that have it too
}

// newPool reserves the address window: the largest the driver gives.
func newPool(dev device.Device, opts *Options) (*pool, error) {
	cfg := opts.Engine
	p := &pool{dev: dev, log: opts.Log, clock: opts.Clock, limit: opts.Engine.Limit, patched: mem.Bytes(cfg.PatchPages) * mem.HandleSize}
	// More than the device has need not be tried: the failed request would first
	// take all there is.
	cfg = cfg.WithDefaults()
	_, total, err := dev.Memory()
	if err == nil && (cfg.Limit == 0 || cfg.Limit > total) {
		cfg.Limit = total
	}
	for p.window = cfg.Window; ; p.window = p.window / 2 &^ (mem.HandleSize - 1) {
		if p.base, err = dev.Reserve(p.window); err == nil {
			cfg.Base, cfg.Window = p.base, p.window
			p.eng = newPolicy(cfg, opts)
			if opts.Range != nil {
				p.seen, p.small = newStepLog(), opts.Range.SmallLimit
			}
			p.largest = p.window / 2
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
	q, ok := ctx.Message().(question)
	if !ok {
		return
	}
	q.slot().reply(p.answer(q))
}

// answer does what a message asks for. A panic breaks the pool: the state is never
// lent again.
func (p *pool) answer(q question) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = p.breaks(r)
		}
	}()
	meanwhile := p.takeBack()
	if m, ok := q.(*poolRequest); ok && m.verb == verbClose {
		return p.close()
	}
	if p.broken != nil {
		return p.outlive(q)
	}
	p.ask(q, meanwhile)
	err = p.do(q)
	p.lend()
	return err
}

func (p *pool) do(q question) error {
	switch m := q.(type) {
	case *allocRequest:
		return p.alloc(m)
	case *freeRequest:
		return p.free(m)
	case *dissolveRequest:
		return p.dissolve(m)
	case *prepareRequest:
		return p.prepare(m)
	case *recordRequest:
		return p.record(m)
	case *fenceRequest:
		p.fenceSlot(m)
	case *poolRequest:
		return p.rare(m)
	}
	return nil
}

func (p *pool) alloc(m *allocRequest) error {
	before := p.eng.Reserved()
	p.waited = false
	if m.after != 0 { // the part before may be lengthened to whole pages
		defer func(was mem.Bytes) { p.arenas += p.part(m.after) - was }(p.part(m.after))
	}
	m.hit, m.wished = false, m.wished || m.wish != 0
	if p.seen != nil && m.pool == 0 {
		p.seen.foresee(p, m)
	}
	ev := engine.Event{Kind: engine.EvAlloc, Req: 1, Size: m.size, Stream: m.stream, Pool: m.pool, Whole: m.whole, Addr: m.after, Room: m.room, Most: m.most, Wish: m.wish}
	ev.Poll = p.seen != nil && p.fences.n+len(p.fences.late) > 0
	grant, err := p.run(ev)
	if isRefused(err, engine.RefusedPending) {
		// A wish that is taken is worth a few questions, what the driver would have to
		// help with all of them.
		p.poll(pollBatch)
		if grant, err = p.run(ev); isRefused(err, engine.RefusedPending) {
			ev.Wish = 0
			grant, err = p.run(ev)
		}
		if isRefused(err, engine.RefusedPending) {
			p.poll(math.MaxInt)
			ev.Wish, ev.Poll = m.wish, false
			grant, err = p.run(ev)
		}
	}
	if errors.Is(err, driver.ErrOutOfMemory) && p.await() {
		p.waited = true
		grant, err = p.run(ev)
	}
	if err != nil {
		if p.eng.Reserved() > before { // what the attempt took in vain
			_, _ = p.run(engine.Event{Kind: engine.EvTrim})
		}
		return err
	}
	if p.waited && !m.whole {
		p.retries++
	}
	m.addr = grant.Addr
	if p.seen != nil && m.pool == 0 {
		p.seen.alloc(m, p.small)
	}
	if m.whole {
		p.arenas += grant.Size
	}
	return nil
}

// part returns the size of a part of an arena, by its start.
func (p *pool) part(at mem.Addr) mem.Bytes {
	b, _ := p.eng.Lookup(at)
	return b.Size
}

func (p *pool) free(m *freeRequest) error {
	b, ok := p.eng.Lookup(m.addr)
	// An arena begins where its first slot does: a slot freed twice is no
	// reason to give the arena back.
	if !ok || b.Addr != m.addr || b.Pending || b.Whole != m.arena || p.freed[m.addr] {
		return ErrUnknown
	}
	last, err := p.run(engine.Event{Kind: engine.EvFree, Addr: m.addr})
	if err != nil {
		return err
	}
	if b.Whole {
		p.arenas -= b.Size
	}
	m.freed = Freed{Size: b.Size, Asked: b.Asked, Stream: b.Stream}
	if p.seen != nil {
		p.seen.freed(m.addr, p.ops)
	}
	if last.Kind == 0 {
		return nil
	}
	if after, ok := p.eng.Lookup(m.addr); ok && after.Addr == m.addr && after.Pending {
		p.pending = max(p.pending, p.eng.Stats().Pending)
	}
	return nil
}

func (p *pool) prepare(m *prepareRequest) error {
	last, err := p.run(engine.Event{Kind: engine.EvPrepare, Stream: m.stream, Size: m.size, Most: m.most})
	m.done = last.Kind == 0
	return err
}

// dissolve takes an arena, and the blocks in it, from a tape. Nobody asks the pool
// about them in between: a block freed meanwhile ends now, and none is freed before
// the pool knows which streams use it.
func (p *pool) dissolve(m *dissolveRequest) error {
	var held mem.Bytes
	for _, at := range m.parts {
		held += p.part(at)
	}
	if _, err := p.run(engine.Event{Kind: engine.EvDissolve, Parts: m.parts, Size: m.size, Keep: m.keep}); err != nil {
		return err
	}
	p.arenas += m.size - held
	freed, used := m.arena.release(m.keep)
	var errs []error
	for _, at := range freed {
		_, err := p.run(engine.Event{Kind: engine.EvFree, Addr: at})
		errs = append(errs, err)
	}
	for at, streams := range used {
		if len(streams) == 0 { // freed by the program, and its fences are recorded
			if p.freed == nil {
				p.freed = make(map[mem.Addr]bool)
			}
			p.freed[at] = true
		}
		for _, id := range streams {
			_, err := p.run(engine.Event{Kind: engine.EvRecord, Addr: at, Stream: id})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (p *pool) record(m *recordRequest) error {
	if b, ok := p.eng.Lookup(m.addr); ok && b.Whole {
		return ErrUnknown
	}
	_, err := p.run(engine.Event{Kind: engine.EvRecord, Addr: m.addr, Stream: m.stream})
	return err
}

func (p *pool) rare(m *poolRequest) error {
	var err error
	switch m.verb {
	case verbBoundary:
		p.poll(math.MaxInt)
		_, err = p.run(p.boundary())
		m.stats = p.stats()
		p.pending = m.stats.Pending
		if e, ok := p.eng.(*onerange.Engine); ok {
			m.spaces = p.seen.take(e)
		}
	case verbFirst:
		_, err = p.run(engine.Event{Kind: engine.EvFirst})
	case verbTrim:
		p.poll(math.MaxInt) // what other streams are done with is cached, too
		_, err = p.run(engine.Event{Kind: engine.EvTrim, Pool: m.pool})
	case verbLimit:
		p.limit = m.limit
		p.eng.SetLimit(m.limit)
	case verbFind:
		b, ok := p.eng.Lookup(m.addr)
		if !ok {
			b, ok = p.eng.Within(m.addr)
		}
		if !ok || b.Whole || b.Pending || p.freed[b.Addr] {
			return ErrUnknown
		}
		m.addr, m.size, m.stream = b.Addr, b.Size, b.Stream
	case verbStats:
		m.stats = p.stats()
		if e, ok := p.eng.(*engine.Engine); ok {
			m.stats.LargestFree = e.LargestFree()
		}
	case verbResetPeak:
		p.peak = p.eng.Reserved()
	case verbCheck:
		err = p.eng.Check()
	case verbShare:
		err = p.share(m.peer)
	}
	return err
}

func (p *pool) stats() PoolStats {
	s := p.eng.Stats()
	return PoolStats{
		Reserved: p.eng.Reserved(), PeakReserved: p.peak,
		Arenas: p.arenas, Load: s.Load - p.arenas - p.gone, Pending: s.Pending, StepPending: p.pending,
		DriverCalls: p.calls, DriverTime: p.time, Retries: p.retries, Engine: s,
		Unfenced: p.fences.failed, Late: len(p.fences.late),
	}
}

// close gives everything back, live blocks included, and that also if the pool
// does not know any more what it has.
func (p *pool) close() error {
	p.broken = fmt.Errorf("%w: the device was closed", ErrBroken)
	return p.dev.Close()
}
