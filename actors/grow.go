package actors

import (
	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/plan"
)

// The plan of an earlier run may be of a program that has changed since, or of one
// that went further than this one will. So its arena is not made at once, but in
// portions, each when the first slot in it is needed (stream.Tape.Cover). A run that
// does what the plan says maps the same pages in the end; one that does not has
// hardly more than it needs when it leaves the plan.

const (
	// A portion is one part in so many of what the plan needs, at least leastPortion.
	portions     = 256
	leastPortion = 64 * mem.MiB
)

func portionOf(span mem.Bytes) mem.Bytes {
	return mem.RoundUp(max(span/portions, leastPortion), mem.HandleSize)
}

// partly reports whether the arena for a stream's plan is made in portions. It must
// have all its addresses from the start.
func (s *supervisor) partly(l *lane, ps *plan.Stream, span mem.Bytes) bool {
	return s.d.opts.GMLake == nil && part(s.earlier, l.ordinal) == ps && (l.arena == nil || l.arena.room >= span)
}

// grow has the lane's arena cover need bytes. If it cannot, or if the step frees
// earlier than planned, so that the arena would grow over memory that lies idle, the
// plan is given up for this step.
func (s *supervisor) grow(l *lane, need mem.Bytes) {
	a := l.serving
	if a == nil || a.bytes() >= need {
		return
	}
	l.port.Lock()
	absent := a.tape.Absent()
	l.port.Unlock()
	portion := portionOf(a.span)
	if absent > 2*portion {
		s.d.log.Info("an arena does not grow: much less lives in it than planned", zap.Int("stream", l.ordinal), zap.Stringer("less", absent))
		s.dissolve(l)
		return
	}
	s.lengthen(l, max(need, a.bytes()+portion))
}

// complete has the lane's arena cover the step that is expected next. Where set-up
// and the first step were as planned, so will this one be.
func (s *supervisor) complete(l *lane) {
	a := l.serving
	if a == nil || a.prologue > 0 {
		return
	}
	l.port.Lock()
	need := a.tape.Needs()
	l.port.Unlock()
	if need > a.bytes() {
		s.lengthen(l, need)
	}
}

// lengthen has the lane's arena cover need bytes, or gives it up for this step.
func (s *supervisor) lengthen(l *lane, need mem.Bytes) {
	a := l.serving
	size, end := a.further(min(need, a.span))
	m := &allocRequest{size: size, stream: l.port.ID(), whole: true, after: a.parts[len(a.parts)-1], most: s.mostWith(l, end)}
	if s.d.ask(s.d.pool, m); m.err != nil {
		s.d.log.Info("an arena cannot grow", zap.Int("stream", l.ordinal), zap.Error(m.err))
		s.dissolve(l)
		return
	}
	l.port.Lock()
	defer l.port.Unlock()
	a.parts = append(a.parts, m.addr)
	a.size.Store(int64(end))
	a.tape.Cover(end)
}
