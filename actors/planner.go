package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/internal/without"
	"stalloc/plan"
	"stalloc/plan/descent"
	"stalloc/stream/schedule"
)

// planner is the actor that looks whether a step asked for what an earlier one did, and if
// so decides where in the range the blocks of the next are best placed. What it decides are
// offsets that bind nobody: it owns no memory, and a bad plan costs the places it gives.
type planner struct {
	d      *Device
	known  map[arenaKey]*kinds
	saver  saver
	sent   uint64 // schedules, ever
	fresh  bool   // a plan was made that is not sent yet
	warned bool   // of a step that will not fit
}

// Receive implements actor.Actor.
func (p *planner) Receive(ctx actor.Context) {
	defer func() {
		if r := recover(); r != nil {
			p.d.log.Error("the planner failed on one step and starts over with the next",
				zap.Any("panic", r))
			p.known = map[arenaKey]*kinds{}
		}
	}()
	switch m := ctx.Message().(type) {
	case *planLoaded:
		p.saver.plan = m.plan
	case *stepEnded:
		defer m.read()
		defer p.d.waiting.Add(-m.weight())
		p.ended(m)
	case *lastLook:
		m.reply(nil)
	}
}

// ended looks at a step that has ended.
func (p *planner) ended(m *stepEnded) {
	if m.lost > 0 || m.gap {
		p.known = map[arenaKey]*kinds{}
	}
	if m.lost > 0 || p.d.opts.Without.Has(without.Plans) {
		return
	}
	ready := &schedulesReady{schedules: map[arenaKey]*Schedule{}}
	arenas := m.arenas(p.d.small, p.d.base)
	again, earlier := len(arenas) > 0, []plan.Step(nil)
	for _, s := range arenas {
		again = (p.look(s, m.schedules, ready, &earlier) || s.small) && again
	}
	p.warn(m, again, earlier)
	p.saver.save(p.known, m.order)
	if len(ready.schedules) > 0 {
		p.sent++
		ready.number, ready.fresh, p.fresh = p.sent, p.fresh, false
		p.d.root.Send(p.d.supervisor, ready)
	}
}

// look compares a step with earlier ones, and decides what is to be planned for the next. It
// reports whether the step came again, and adds the steps of an earlier run that it is the first to
// contain.
func (p *planner) look(
	s *arenaStep, carried uint64, ready *schedulesReady, earlier *[]plan.Step,
) (again bool) {
	h := p.known[s.arenaKey]
	if h == nil {
		h = &kinds{}
		p.known[s.arenaKey] = h
		p.saver.recall(h, s)
	}
	k := h.recognize(s.Step)
	began := h.serving == k && carried >= h.since
	fresh := h.due(k, s.hits, began) || p.d.opts.Always
	if fresh {
		k.schedule = p.d.host.Build(s.schedule(p.d.base))
		p.fresh = p.fresh || k.schedule != nil
	}
	for _, l := range h.all {
		if l.loaded && l.schedule == nil && contains(s.Requests, l.step.Requests) {
			*earlier = append(*earlier, l.step)
			l.schedule = p.d.host.Build(l.around(s).schedule(p.d.base))
			p.fresh = p.fresh || l.schedule != nil
		}
	}
	next := h.next(k)
	if next != h.serving || fresh && next == k {
		h.serving, h.since = next, p.sent+1
		ready.schedules[s.arenaKey] = next.served()
	}
	return k.proven
}

// around is a step of an earlier run's where another has left its gaps.
func (k *kind) around(s *arenaStep) *arenaStep {
	return &arenaStep{arenaKey: s.arenaKey, Step: k.step, gaps: s.gaps, end: k.step.End(),
		hits: unseen}
}

// schedule places the requests of a step in the gaps that the range had at its end; nil: that
// cannot be.
func (s *arenaStep) schedule(base mem.Addr) []schedule.Entry {
	if len(s.gaps) == 0 {
		return nil
	}
	origin := mem.Offset(s.gaps[0].Addr - base)
	var offsets []mem.Offset
	fits := false
	if !s.small { // those cost no memory worth a plan: each goes where it lay
		offsets, fits = s.solve()
	}
	// What stays may lie so that no plan fits around it. The step itself has fitted: then each
	// block goes where it lay, but for those that had a view. Not if other streams' work decides
	// when blocks end, nor in the plan of an earlier run, whose addresses were others.
	if !fits && (s.hits == unseen || !s.small && s.Late()) {
		return nil
	}
	entries := make([]schedule.Entry, len(s.Requests))
	for i, r := range s.Requests {
		at := r.At
		if fits {
			at = origin + offsets[i]
		}
		place := uint64(0)
		if fits || s.small || within(s.gaps, base+mem.Addr(at), r.Size) {
			place = uint64(at) / uint64(mem.Grain)
		}
		entries[i] = schedule.Of(uint64(r.Size/mem.Grain), place)
	}
	return entries
}

// within reports whether all of a block is in one of the gaps, which are in order.
func within(gaps []engine.Range, at mem.Addr, size mem.Bytes) bool {
	i, found := slices.BinarySearchFunc(gaps, at, func(g engine.Range, at mem.Addr) int {
		if g.Addr < at {
			return -1
		} else if g.Addr > at {
			return 1
		}
		return 0
	})
	if !found {
		i--
	}
	return i >= 0 && at+mem.Addr(size) <= gaps[i].Addr+mem.Addr(gaps[i].Size)
}

// solve places the requests in the gaps, from the first one's beginning on, and reports whether
// they fit there.
func (s *arenaStep) solve() ([]mem.Offset, bool) {
	var fixed []descent.Fixed
	first, last := s.gaps[0], s.gaps[len(s.gaps)-1]
	for i, g := range s.gaps[1:] {
		before := s.gaps[i]
		fixed = append(fixed, descent.Fixed{
			From: mem.Offset(before.Addr - first.Addr +
				mem.Addr(before.Size)), To: mem.Offset(g.Addr - first.Addr), Until: s.end,
		})
	}
	goal := mem.Bytes(last.Addr-first.Addr) + last.Size
	x := descent.Around(s.Buffers(s.end), fixed, goal)
	return x.Offsets, x.Makespan <= goal
}
