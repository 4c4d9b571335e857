package actors

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/plan"
)

// Access rights for a new arena can take the driver longer than a training step.
// So before a plan is served the pool maps the arena's pages in small portions,
// asked for by a goroutine, while training goes on; the boundary at which the plan
// becomes active then finds them mapped.

const (
	// prepareFrom is the least an arena must lack for that to be worth a step.
	prepareFrom = 128 * mem.MiB
	// While the program makes requests of the pool, a small portion of pages is
	// mapped every so often: 60 µs in which a miss waits. A training loop that
	// waits for its device makes none, and then larger ones follow each other.
	smallPortion = 2
	largePortion = 16
	unhurried    = 4 * time.Millisecond
	// patience is how many boundaries a plan is put off for its arena.
	patience = 100
)

// preparing is the state of mapping ahead for one plan.
type preparing struct {
	plan   *plan.Plan
	done   atomic.Bool
	waited int // boundaries
}

// prepared reports whether the plan can be served at this boundary. If its arenas
// are not mapped yet, it has that begun.
func (s *supervisor) prepared(p *plan.Plan) bool {
	if s.d.opts.Inline || p == nil {
		return true
	}
	if now := s.preparing; now != nil && now.plan == p {
		now.waited++
		return now.done.Load() || now.waited > patience
	}
	var streams []mem.StreamID
	var unlaid []func()
	for _, l := range s.d.adopt() {
		ps := part(p, l.ordinal)
		if lay := s.unlaid(l, ps); lay != nil {
			unlaid = append(unlaid, lay)
		}
		if ps == nil || l.arena != nil && ps.Arena < l.arena.bytes()+prepareFrom || ps.Arena < prepareFrom {
			continue
		}
		begin := &prepareRequest{stream: l.port.ID(), size: ps.Arena, most: smallPortion}
		if s.d.ask(s.d.pool, begin); begin.err != nil {
			s.d.log.Warn("an arena cannot be mapped ahead", zap.Error(begin.err))
			continue
		}
		streams = append(streams, begin.stream)
	}
	s.preparing = &preparing{plan: p}
	if len(streams) == 0 && len(unlaid) == 0 {
		return true
	}
	now := s.preparing
	s.d.background.Go(func() {
		for _, lay := range unlaid {
			lay()
		}
		s.d.prepare(streams, now)
	})
	return false
}

// unlaid returns what lays a stream's plan out as it would be served now, nil if that is
// done or it would not be served.
func (s *supervisor) unlaid(l *lane, ps *plan.Stream) func() {
	if ps == nil {
		return nil
	}
	_, cut, err := due(ps, int(s.d.steps.Load()))
	if err != nil {
		return nil
	}
	g := l.ground(cut)
	if s.d.layouts.has(ps, g) {
		return nil
	}
	return func() { _, _ = s.d.layouts.of(ps, g) } // an error comes again where it is served
}

// prepare maps what is left, portion by portion.
func (d *Device) prepare(streams []mem.StreamID, p *preparing) {
	defer p.done.Store(true)
	most := smallPortion
	for _, id := range streams {
		for more := true; more && !d.closing.Load(); {
			before := d.traffic.Load()
			m := &prepareRequest{stream: id, most: most}
			d.ask(d.pool, m)
			more = m.err == nil && !m.done
			most = largePortion
			if more && d.traffic.Load() != before {
				most = smallPortion
				time.Sleep(unhurried)
			}
		}
	}
}
