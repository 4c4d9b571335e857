package actors

import (
	"stalloc/engine"
	"stalloc/engine/onerange"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// lasting is a request of a step and how long its block's bytes were taken, in events
// of the pool. A block that other streams used ends where its fences were seen to pass.
type lasting struct {
	size     mem.Bytes // rounded
	at       mem.Addr
	from, to mem.Tick // to < 0: it outlived the step
	late     bool     // other streams used the block
}

// spaceKey names a space of the range: a stream's for large or for small requests.
type spaceKey struct {
	stream mem.StreamID
	small  bool
}

// spaceStep is what a step asked of one space.
type spaceStep struct {
	spaceKey
	requests []lasting
	gaps     []engine.Range // at the end of the step
	events   mem.Tick
	hits     int     // requests that were served where they were wished
	paid     float64 // for stitching, share of the step's time
}

// stepLog is the pool's record of the running step, for the planner.
type stepLog struct {
	tick   mem.Tick
	spaces map[spaceKey]*spaceStep
	live   map[mem.Addr]lived // of this step's blocks
	large  map[mem.StreamID]*forecaster
	waits  map[driver.Fence]mem.Addr // blocks that are freed and wait for other streams
}

type lived struct {
	of *spaceStep
	n  int
}

func newStepLog() *stepLog {
	return &stepLog{spaces: map[spaceKey]*spaceStep{}, large: map[mem.StreamID]*forecaster{}, live: map[mem.Addr]lived{}, waits: map[driver.Fence]mem.Addr{}}
}

func (l *stepLog) alloc(m *allocRequest, small mem.Bytes) {
	l.tick++
	size := mem.Round(m.size)
	key := spaceKey{m.stream, size <= small}
	s := l.spaces[key]
	if s == nil {
		s = &spaceStep{spaceKey: key}
		l.spaces[key] = s
	}
	if m.wish != 0 && m.addr == m.wish {
		m.hit = true
		s.hits++
	}
	l.large[m.stream].placed(m)
	l.live[m.addr] = lived{s, len(s.requests)}
	s.requests = append(s.requests, lasting{size: size, at: m.addr, from: l.tick, to: -1})
}

// freed ends a block, or has it wait for the fences that ops ask for.
func (l *stepLog) freed(at mem.Addr, ops []engine.Op) {
	l.tick++
	waits := false
	for _, op := range ops {
		if op.Kind == engine.OpRecord && op.Addr == 0 {
			l.waits[op.Fence] = at
			waits = true
			if x, ok := l.live[at]; ok {
				x.of.requests[x.n].late = true
			}
		}
	}
	for _, f := range l.large {
		f.freed(at)
	}
	if !waits {
		l.end(at)
	}
}

func (l *stepLog) end(at mem.Addr) {
	for _, f := range l.large {
		f.done(at)
	}
	if x, ok := l.live[at]; ok {
		x.of.requests[x.n].to = l.tick
		delete(l.live, at)
	}
}

// passed ends the block whose last fence this was.
func (l *stepLog) passed(f driver.Fence, pending func(mem.Addr) bool) {
	at, ok := l.waits[f]
	if delete(l.waits, f); ok && !pending(at) {
		l.end(at)
	}
}

// take returns what the step was and begins the next.
func (l *stepLog) take(e *onerange.Engine) []spaceStep {
	var steps []spaceStep
	for key, s := range l.spaces {
		s.events, s.paid = l.tick+1, e.Paid()
		e.Gaps(key.stream, key.small, func(r engine.Range) { s.gaps = append(s.gaps, r) })
		steps = append(steps, *s)
	}
	clear(l.spaces)
	clear(l.live)
	l.tick = 0
	for _, f := range l.large {
		f.learner.Boundary()
	}
	return steps
}
