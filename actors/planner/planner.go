// Package planner decides where the blocks of the coming steps are best placed. It is an actor with
// a goroutine of its own, since planning takes as long as a step does. What it decides are offsets
// that bind nobody: it owns no memory, and a bad plan costs the offsets it gives, no more.
//
//	observed ──► read ──► compared with earlier steps ──► placed ──► sent to the supervisor
//	             step     kinds.go                        place.go
//
// A step that asked for what an earlier one did, request for request, is placed around what stays.
// Its schedule serves from the next boundary on, while the requests are the expected ones: after
// the first that is not, the step is the range's alone. What does not serve is withdrawn.
package planner

import (
	"go.uber.org/zap"

	"stalloc/actors/host"
	"stalloc/actors/inline"
	"stalloc/actors/step"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/plan/descent"
	"stalloc/stream/schedule"
)

// Env is what the planner needs of the device.
type Env struct {
	Log   *zap.Logger
	Small mem.Bytes // requests up to this have an arena of their own
	Base  mem.Addr  // of the address window
	// Plan says whether steps are planned; Always plans each, whatever the last plan was worth.
	Plan, Always bool

	Build func([]schedule.Entry) *host.Schedule
	Send  func(*Ready)                // to the supervisor
	Save  func(*plan.Plan)            // the latest plan
	Free  func() (mem.Bytes, error)   // memory that the driver has left
	Warn  func(need, there mem.Bytes) // what the coming step needs will not be there
	Read  func(int64)                 // a step of that weight is read
	// Follow is called with each step that was observed, nil for none: the simulation of
	// PyTorch's allocator.
	Follow func(*step.Observed, *step.Step)
}

// Ready are the schedules of the next steps.
type Ready struct {
	Schedules map[step.Arena]*host.Schedule // where they change; nil: none
	Number    uint64                        // in the order in which they were sent
	Fresh     bool                          // a new plan is among them
}

// Planner is the actor.
type Planner struct {
	env    Env
	reader step.Reader
	known  map[step.Arena]*kinds
	saver  saver
	sent   uint64 // schedules, ever
	fresh  bool   // a plan was made that is not sent yet
	warned bool   // of a step that will not fit
}

// New makes a planner that has seen no step.
func New(env Env) *Planner {
	return &Planner{env: env, reader: step.Reader{Keep: env.Follow != nil},
		known: map[step.Arena]*kinds{}, saver: saver{save: env.Save}}
}

// Loaded tells the planner what an earlier run has left.
type Loaded struct{ Plan *plan.Plan }

// LastLook is answered when all observed steps before it were read.
type LastLook struct{ inline.Answer }

func (p *Planner) Receive(message any) {
	defer func() {
		if r := recover(); r != nil {
			p.env.Log.Error("the planner failed on one step and starts over with the next",
				zap.Any("panic", r))
			p.known = map[step.Arena]*kinds{}
		}
	}()
	switch m := message.(type) {
	case *Loaded:
		p.saver.loaded = m.Plan
	case *step.Observed:
		defer p.env.Read(m.Weight())
		p.ended(m)
	case *LastLook:
		inline.Reply(m, nil)
	}
}

// ended reads a step that has ended, and plans the next.
func (p *Planner) ended(m *step.Observed) {
	if !p.env.Plan && p.env.Follow == nil {
		m.Return(m.Events)
		return
	}
	s := p.reader.Read(m, p.env.Small, p.env.Base)
	m.Return(m.Events)
	if p.env.Follow != nil {
		p.env.Follow(m, s)
	}
	if m.Lost > 0 || m.Gap {
		p.known = map[step.Arena]*kinds{}
	}
	if m.Lost > 0 || !p.env.Plan {
		return
	}
	ready := &Ready{Schedules: map[step.Arena]*host.Schedule{}}
	again, earlier := len(s.Arenas) > 0, []plan.Step(nil)
	for _, a := range s.Arenas {
		again = (p.look(a, m.Schedules, ready, &earlier) || a.Arena.Small) && again
	}
	p.warn(m, s.Peak, again, earlier)
	p.saver.keep(p.known, m.Order)
	if len(ready.Schedules) > 0 {
		p.sent++
		ready.Number, ready.Fresh, p.fresh = p.sent, p.fresh, false
		p.env.Send(ready)
	}
}

// look compares a step with earlier ones, and decides what is planned for the next. It reports
// whether the step came again, and adds the loaded steps that it is the first to contain. carried
// is the number of the schedules that the step was served by.
func (p *Planner) look(
	a *step.ArenaStep, carried uint64, ready *Ready, earlier *[]plan.Step,
) (again bool) {
	h := p.known[a.Arena]
	if h == nil {
		h = &kinds{}
		p.known[a.Arena] = h
		p.saver.recall(h, a)
	}
	k := h.recognize(a.Step)
	began := h.serving == k && carried >= h.since
	fresh := h.due(k, a.Hits, began) || p.env.Always
	if fresh {
		k.schedule = p.build(place(a, p.env.Base))
	}
	for _, l := range h.all {
		if l.loaded && l.schedule == nil && contains(a.Requests, l.step.Requests) {
			*earlier = append(*earlier, l.step)
			l.schedule = p.build(placeLoaded(l.step, a, p.env.Base))
		}
	}
	next := h.next(k)
	if next != h.serving || fresh && next == k {
		h.serving, h.since = next, p.sent+1
		ready.Schedules[a.Arena] = next.served()
	}
	return k.proven
}

// build makes a schedule that the host can follow; nil: there is none.
func (p *Planner) build(entries []schedule.Entry) *host.Schedule {
	s := p.env.Build(entries)
	p.fresh = p.fresh || s != nil
	return s
}

// warn says once that the coming step will not fit, if that is certain: the step that has ended
// came again, or contained steps of an earlier run. peak is how far the load rose in it.
func (p *Planner) warn(m *step.Observed, peak mem.Bytes, again bool, earlier []plan.Step) {
	if p.warned {
		return
	}
	live := m.Load - m.Asleep // at least
	need := mem.Bytes(0)
	if again {
		need = live + peak
	} else if len(earlier) > 0 {
		need = live + least(earlier)
	}
	if need <= m.Reserved {
		return
	}
	free, err := p.env.Free()
	most := m.Reserved + free
	if m.Limit > 0 {
		most = min(most, m.Limit)
	}
	if p.warned = err == nil && need > most; p.warned {
		p.env.Log.Warn("the coming step will not fit if it is like the one before: try a smaller "+
			"batch or sequence, activation checkpointing or offloading; stalloc.explain() says what "+
			"is live", zap.Stringer("needs at least", need), zap.Stringer("there is", most),
			zap.Stringer("live now", live))
		p.env.Warn(need, most)
	}
}

// least returns how much higher steps bring the load at least. What they leave is taken to replace
// what the step before left, such as gradients.
func least(steps []plan.Step) mem.Bytes {
	kept, peak := mem.Bytes(0), mem.Bytes(0)
	for _, s := range steps {
		var passing []descent.Buffer
		for _, r := range s.Requests {
			if r.Free == plan.Never {
				kept += r.Size
			} else {
				passing = append(passing, descent.Buffer{Lower: r.From, Upper: r.Free,
					Size: r.Size})
			}
		}
		peak = max(peak, descent.LowerBound(passing))
	}
	return peak - kept
}
