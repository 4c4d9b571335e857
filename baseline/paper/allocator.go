package paper

import (
	"errors"
	"fmt"

	"stalloc/baseline"
	"stalloc/internal/cost"
	"stalloc/internal/mem"
)

// Allocator is the allocator of the second start. It is a baseline.Allocator that is told of
// steps.
type Allocator struct {
	plan  *Plan
	opt   baseline.Options
	cache *baseline.Native

	opened   bool
	requests int // ever: the hooks' view of where the program is
	steps    int // that ended, set-up and first step as one
	ordinal  int // of the next static request of the step
	left     bool

	region region
	cells  cells
	blocks map[baseline.Block]*block // those in the region and in cells
	last   baseline.Block            // of these

	own, peak    baseline.Stats
	calls        baseline.Calls
	hits, misses int64
}

// block is one of the region, or of a cell.
type block struct {
	span
	cell        bool
	asked       mem.Bytes
	stream      mem.StreamID
	freed, used bool // used: by other streams
}

const cellSize = mem.Grain

const (
	// Where the region and the cells begin: far from what the cache's driver returns.
	regionAt mem.Offset = 1 << 61
	cellsAt             = regionAt + 1<<60
)

// New makes the allocator of a second start with a plan, or without, if that is nil: then it is
// the caching allocator.
func New(o baseline.Options, plan *Plan) (*Allocator, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if plan == nil {
		plan = &Plan{}
	}
	if o.Capacity == 0 {
		o.Capacity = baseline.DefaultCapacity
	}
	a := &Allocator{plan: plan, opt: o, blocks: make(map[baseline.Block]*block),
		last: baseline.None}
	rest := o
	rest.Capacity = max(o.Capacity-a.taken(), 1)
	if o.Limit > 0 {
		rest.Limit = max(o.Limit-a.taken(), 1)
	}
	a.cache = baseline.NewNative(rest)
	return a, nil
}

// taken is what lies beside the cache.
func (a *Allocator) taken() mem.Bytes { return a.plan.Region + a.plan.Cells }

// Name says what allocator it is.
func (a *Allocator) Name() string { return "paper" }

// Step is the end of a step.
func (a *Allocator) Step() { a.steps, a.ordinal, a.left = a.steps+1, 0, false }

// Leave says that what follows is of no step, until the next Step: an evaluation, or what comes
// after the last. It is served from what is free of the region.
func (a *Allocator) Leave() { a.left = true }

// Served returns how many requests were served at a planned offset, and how many had an ordinal and
// were not.
func (a *Allocator) Served() (hits, misses int64) { return a.hits, a.misses }

// open takes the region and the cells from the driver.
func (a *Allocator) open(size mem.Bytes, stream mem.StreamID) error {
	if a.opened || a.taken() == 0 {
		return nil
	}
	limit := a.opt.Capacity
	if a.opt.Limit > 0 {
		limit = min(limit, a.opt.Limit)
	}
	if a.taken() > limit {
		a.own.OOMs++
		return &baseline.OutOfMemory{Asked: size, Stream: stream, Capacity: a.opt.Capacity,
			Fraction: a.opt.Limit}
	}
	a.opened = true
	for _, part := range []struct {
		at   mem.Offset
		size mem.Bytes
	}{{regionAt, a.plan.Region}, {cellsAt, a.plan.Cells}} {
		if part.size == 0 {
			continue
		}
		a.calls.Count[cost.MemAlloc]++
		a.calls.Micros += cost.Micros(cost.MemAlloc, part.size)
		a.own.Reserved += part.size
		a.own.Segments++
		if a.opt.Held != nil {
			a.opt.Held(baseline.Place{Space: baseline.RT, Offset: part.at}, part.size, true)
		}
	}
	a.cells.most = int64(a.plan.Cells / cellSize)
	return nil
}

// Malloc serves a request; see baseline.Allocator.
func (a *Allocator) Malloc(size mem.Bytes, stream mem.StreamID) (baseline.Block, error) {
	if size < 0 || size > largest {
		return baseline.None, fmt.Errorf("paper: request of %d bytes: expected 0 to %d", int64(size),
			int64(largest))
	}
	if size == 0 {
		a.requests++
		return baseline.None, nil
	}
	if err := a.open(size, stream); err != nil {
		return baseline.None, err
	}
	defer a.note()
	at, cell, ok := a.find(size, stream)
	a.requests++
	if !ok {
		b, err := a.cache.Malloc(size, stream)
		return b, a.whole(err)
	}
	n := mem.Round(size)
	a.last--
	a.blocks[a.last] = &block{span: span{at, at + mem.Offset(n)}, cell: cell, asked: size,
		stream: stream}
	a.own.Allocated += n
	a.own.Active += n
	a.own.Requested += size
	return a.last, nil
}

// whole has the cache's error say how the whole device stands.
func (a *Allocator) whole(err error) error {
	var full *baseline.OutOfMemory
	if !errors.As(err, &full) {
		return err
	}
	now := a.sum()
	return &baseline.OutOfMemory{Asked: full.Asked, Stream: full.Stream, Allocated: now.Allocated,
		Reserved: now.Reserved, Capacity: a.opt.Capacity, Fraction: a.opt.Limit}
}

// largest is the largest request that the cache serves.
const largest mem.Bytes = 1 << 50

// find takes a place in the region or among the cells.
func (a *Allocator) find(size mem.Bytes, stream mem.StreamID) (at mem.Offset, cell, ok bool) {
	apart := !a.plan.ignoring && stream != a.plan.stream
	if a.taken() == 0 || apart && size <= cellSize {
		return 0, false, false
	}
	if size <= cellSize {
		at, ok = a.cells.take()
		return at, true, ok
	}
	if a.left && !apart {
		whole := idle{{0, mem.Offset(a.plan.Region)}}
		at, ok = a.region.fit(whole, mem.Round(size))
		return at, false, ok
	}
	entries, step := a.plan.head, 0
	if a.steps > 0 {
		entries, step = a.plan.step, 1
	}
	if a.requests < len(a.plan.modules) && a.plan.modules[a.requests] != outside {
		if apart {
			return 0, false, false
		}
		at, ok = a.region.fit(a.plan.idle[step][a.plan.modules[a.requests]], mem.Round(size))
		return at, false, ok
	}
	ordinal := a.ordinal
	a.ordinal++
	if ordinal < len(entries) && entries[ordinal].serves(size) &&
		(a.plan.ignoring || entries[ordinal].stream == stream) {
		at = entries[ordinal].at
		ok = a.region.take(span{at, at + mem.Offset(mem.Round(size))})
	}
	if ok {
		a.hits++
	} else {
		a.misses++
	}
	return at, false, ok
}

// serves reports whether the entry has a place for a request.
func (e *entry) serves(size mem.Bytes) bool { return e.size == size && e.at != nowhere }
