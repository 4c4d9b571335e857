// Package pool has the dynamic-pool actor: it owns the memory of one device and is the only one
// that changes it. It feeds the engine (engine/order over engine/onerange, or over engine/gmlake to
// compare with) events, and performs the operations that come back, driver calls included, until
// one grants the block.
//
//	Request ──► Pool ──► order.Step ──► operations ──► driver      runner.go
//	              │          ▲                │
//	              │          └── what failed ─┘
//	              └── sleep.go, share.go, limit.go, retire.go: what else happens to its memory
//
// Regions that lend their memory are opened and closed in away.go; plan/residency says how much of
// them leaves, room.go sends it, and back.go brings it back.
package pool

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"stalloc/actors/device"
	"stalloc/actors/device/away"
	"stalloc/actors/device/backup"
	"stalloc/actors/device/sleeper"
	"stalloc/actors/host"
	"stalloc/actors/inline"
	"stalloc/engine"
	"stalloc/engine/gmlake"
	"stalloc/engine/onerange"
	"stalloc/engine/order"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/internal/without"
	"stalloc/live/perfetto"
)

// A Clock tells the time since some moment, and lets some pass.
type Clock struct {
	Now   func() time.Duration
	Sleep func(time.Duration)
}

// Env is what the pool needs of the device.
type Env struct {
	Log     *zap.Logger
	Host    host.Host
	Clock   Clock
	Trace   *perfetto.Trace // nil: nobody asked for one
	Ordinal int             // of the device, in the trace
	Marked  *atomic.Bool    // the program marks its steps
	Retries *atomic.Uint64  // see Stats
}

// Pool is the actor.
type Pool struct {
	Env
	runner
	sleeping
	sharing
	moving
	lost
	Window           // of addresses
	state  state     // what it still does
	limit  mem.Bytes // that the program has set, 0: none
	cap    mem.Bytes // what the settings and the device allow, 0: anything
	idle   mem.Bytes // freed since it retired, and not given back

	requests uint64 // so far
	taken    uint64 // events of the log
}

// Window is what a pool was opened with.
type Window struct {
	Base    mem.Addr  // of the addresses
	Size    mem.Bytes // of them
	Total   mem.Bytes // the device's memory, 0 where it cannot be had
	Largest mem.Bytes // no block can be larger
	Small   mem.Bytes // requests up to this have an arena of their own
	Handle  mem.Bytes // no handle is larger
}

// state is what a pool still does. It only goes up.
type state uint8

const (
	serving state = iota
	retired       // blocks are freed and looked up; requests are refused
	broken        // the policy is not asked any more
	closed        // nothing is left
)

// leastWindow is what a window has that is set to less.
const leastWindow = 64 * mem.MiB

// New reserves the address window, the largest that the driver gives. With gm, GMLake's algorithm
// serves in place of one range.
func New(dev device.Device, env Env, layout onerange.Config, gm *gmlake.Config) (*Pool, error) {
	p := &Pool{Env: env,
		runner:   runner{dev: sleeper.New(dev), events: map[driver.Fence]driver.Fence{}},
		sleeping: sleeping{map[uint64]*backup.Copy{}, backup.New(dev, env.Log)},
		sharing:  sharing{exported: map[mem.Addr]mem.Bytes{}},
		moving:   moving{moved: map[uint64]*moved{}, warned: map[string]bool{}},
		limit:    layout.Limit}
	p.link = away.NewLink(p.dev, p.backups)
	// More than the device has need not be tried: the failed request would first take all there is.
	_, total, err := dev.Memory()
	if err == nil {
		p.Total = total
	}
	if err == nil && (layout.Limit == 0 || layout.Limit > total) {
		layout.Limit = total
	}
	p.cap, layout.Limit = layout.Limit, 0 // set together with what sleeps: applyLimit
	for p.Size = max(layout.Window, leastWindow) &^ (mem.HandleSize - 1); ; {
		if p.Base, err = dev.Reserve(p.Size); err == nil {
			break
		}
		if p.Size < 128*mem.GiB {
			return nil, fmt.Errorf(
				"no address space for the pool (set STALLOC_CONF=window:SIZE to ask for less): %w", err)
		}
		p.Size = p.Size / 2 &^ (mem.HandleSize - 1)
	}
	layout.Base, layout.Window = p.Base, p.Size
	p.policy = newPolicy(layout, gm, env.Host)
	p.order = order.New(p.policy, order.Config{NoWait: layout.Without.Has(without.Wait),
		NoLend: layout.Without.Has(without.Lend), NoPending: !p.policy.Indexed()})
	p.applyLimit()
	p.Small, p.Handle = layout.SmallLimit, layout.HandleMost
	p.Largest = min(p.Size/2, onerange.Largest)
	if total > 0 {
		p.Largest = min(p.Largest, total)
	}
	return p, nil
}

// ErrBroken says that the pool lost track of its state and serves nothing more.
var ErrBroken = errors.New("the pool is broken")

// Receive implements inline.Actor. It answers whatever happens.
func (p *Pool) Receive(message any) {
	if q, ok := message.(inline.Question); ok {
		inline.Reply(q, p.answer(q))
	}
}

// answer does what a message asks for. A panic breaks the pool: the host serves nothing more
// from the range.
func (p *Pool) answer(q inline.Question) (err error) {
	p.Host.Lock()
	defer func() {
		p.Host.SetBudget(p.budget())
		p.Host.Unlock()
	}()
	defer func() {
		if r := recover(); r != nil {
			err = p.breaks(r)
		}
	}()
	if p.state >= broken {
		return p.outlive(q)
	}
	switch m := q.(type) {
	case *Request:
		return p.serve(m)
	case *Free:
		return p.free(m)
	case *Call:
		return m.Do(p)
	}
	return nil
}

// Call runs a function on the pool.
type Call = inline.Call[*Pool]

const (
	// opsWhilePending is how many requests and frees the host may serve while memory waits for
	// fences that the driver must be asked about.
	opsWhilePending = 32
	// maxPollShift is how often that is doubled while memory waits for a stream that the program
	// does not name again.
	maxPollShift = 7
	// ImplicitStep is how many requests and frees a step has where nobody marks the steps: crude,
	// but enough to lay memory out by steps (onerange).
	ImplicitStep = 1 << 17
)

// budget is what the host may serve until the next message.
func (p *Pool) budget() host.Budget {
	b, wait := host.Budget{Ops: math.MaxUint64, MaxSize: p.Largest}, p.order.Outstanding()
	switch {
	case !p.policy.Indexed() || p.state != serving || p.sleeps(0): // Go sees each request
		b.Ops = 0
	case wait.Urgent > 0:
		b.Ops = opsWhilePending
	case wait.Late > 0: // for a request of that stream, which may be gone
		b.Ops = opsWhilePending << min(wait.Looks, maxPollShift)
	case !p.Marked.Load(): // a request is to come now and then, to end a step
		b.Ops = ImplicitStep
	}
	return b
}

// policy decides where blocks lie and when the driver is called: the range or, to compare with it,
// GMLake's algorithm. Both speak the engine's events and operations.
type policy interface {
	order.Policy
	SetLimit(mem.Bytes)
	Keep(mem.Addr) // the block's free is an event, whoever frees it
	Forget(keep func(mem.StreamID) bool) (gone []mem.StreamID)
	// Indexed reports whether its blocks are in the host's index, for the fast path.
	Indexed() bool

	Within(mem.Addr) (engine.Block, bool)
	Blocks() iter.Seq[engine.Block]
	HandlesOf(is func(pool uint64) bool) []engine.Index
	PlaceOf(engine.Index) mem.Addr // a handle's own, no view; 0: none
	Streams() []mem.StreamID
	Ordinal(mem.StreamID) uint16
	Gaps(stream mem.StreamID, small bool, do func(engine.Range))

	Stats() engine.Stats
	Usage() engine.Usage
	LargestFree() mem.Bytes
	Lending() mem.Bytes // lent, and still in use by its streams' work
	Check() error
}

// newPolicy makes the one that is configured, over the addresses of layout.
func newPolicy(layout onerange.Config, gm *gmlake.Config, h host.Host) policy {
	small := layout.SmallLimit
	if layout.Without.Has(without.Small) {
		small = 0
	}
	h.Begin(layout.Base, layout.Window, small)
	if gm != nil {
		c := *gm
		c.Base, c.Window, c.Limit = layout.Base, layout.Window, layout.Limit
		return gmlake.New(c)
	}
	return onerange.New(layout, h.Index())
}
