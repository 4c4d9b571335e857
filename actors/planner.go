package actors

import (
	"cmp"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream/brief"
	"stalloc/stream/wish"
)

// planner is the actor that looks whether a step asked for what the one before did, and if
// so decides where in the range the blocks of the next are best placed. What it decides are
// wishes: it owns no memory, and a bad plan costs the places it gives.
type planner struct {
	d     *Device
	known map[spaceKey]*habit
	// The valley of the step before, and whether the running step began at a mark and ends
	// in a valley.
	valley plan.Valley
	mixed  bool
	saver  saver
	brief  brief.Learner
	said   brief.Table // what the pool was told of it
	sent   uint64      // wishes, ever
	fresh  bool        // a plan was made that is not sent yet
	begin  int         // boundaries that the beginning of an earlier run's plan still spans
}

const (
	// Two steps are alike, and a plan serves, if so much of their requests agrees.
	alike = 0.95
	// The end of a block that other streams use moves from step to step. As long as the
	// memory allows, its place is left alone for so many more events, at most.
	mostMargin = 1 << 10
)

// Receive implements actor.Actor.
func (p *planner) Receive(ctx actor.Context) {
	defer func() {
		if r := recover(); r != nil {
			p.d.log.Error("the planner failed on one step and starts over with the next", zap.Any("panic", r))
			p.known = map[spaceKey]*habit{}
		}
	}()
	switch m := ctx.Message().(type) {
	case *planLoaded:
		p.loaded(m)
	case *stepEnded:
		defer p.d.waiting.Add(-m.weight())
		p.ended(m)
	case *lastLook:
		m.reply(nil)
	}
}

// ended looks at a step that has ended.
func (p *planner) ended(m *stepEnded) {
	if p.saver.history == nil && p.d.ending.Load() { // neither this run nor a later one has use for it
		return
	}
	p.brief.Step(m.events, m.lost > 0 || m.gap)
	p.tellBrief()
	p.saver.add(m)
	if p.begin > 0 { // an earlier run's plan spans it
		if p.begin--; p.begin > 0 || m.followed() {
			return
		}
		p.saver.loaded = false // this run is another
	}
	if m.lost > 0 || m.gap {
		p.known = map[spaceKey]*habit{}
	}
	if m.lost > 0 {
		return
	}
	if p.mixed { // the boundaries moved in it
		p.mixed = false
		return
	}
	ready := &wishesReady{reels: map[spaceKey]*Reel{}}
	spaces := m.spaces(p.d.small)
	served := len(spaces) > 0
	for _, s := range spaces {
		served = p.look(s, m.wishes, ready) && served
	}
	p.saver.judged(m, served, &p.brief)
	if !served && p.moves(m) { // a plan from mark to mark would begin where no step does any more
		p.known = map[spaceKey]*habit{}
	}
	if len(ready.reels) > 0 {
		p.sent++
		ready.number, ready.fresh, p.fresh = p.sent, p.fresh, false
		p.d.root.Send(p.d.supervisor, ready)
	}
}

// followed reports whether half of a step's requests were served where they were wished.
func (m *stepEnded) followed() bool {
	hits, misses := 0, 0
	for _, e := range m.events {
		switch e.Kind() {
		case wish.EventHit:
			hits++
		case wish.EventMiss:
			misses++
		}
	}
	return hits >= misses
}

// tellBrief has requests be served by what was learned of brief blocks, if that has changed: the
// pool takes the lock to hear of it.
func (p *planner) tellBrief() {
	if t := p.brief.Table(); *t != p.said {
		p.said = *t
		p.d.tellPool(func(q *pool) { q.host.SetBrief(t) })
	}
}

// look compares a step with earlier ones, and decides what is to be wished in the next. It
// reports whether the step was served as its plan says.
func (p *planner) look(s *spaceStep, wished uint64, ready *wishesReady) (served bool) {
	h := p.known[s.spaceKey]
	if h == nil {
		h = &habit{}
		p.known[s.spaceKey] = h
	}
	now := make([]wish.Entry, len(s.requests))
	for i, r := range s.requests {
		now[i] = wish.Of(uint64(r.size/mem.Grain), 0)
	}
	k, agree := h.recognize(now)
	known := k.before != nil
	k.before = now
	began := h.serving == k && wished >= h.since
	fresh := known && k.replan(s.hits, agree, began) || p.d.opts.Always
	if fresh {
		k.wishes = p.d.host.Build(wishesOf(s, p.d.base), false)
		p.fresh = p.fresh || k.wishes != nil
	}
	next := h.next(k)
	if next != h.serving || fresh && next == k {
		h.serving, h.since = next, p.sent+1
		ready.reels[s.spaceKey] = next.reel()
	}
	return began && !fresh && k.wishes != nil
}

// lying has each request of a step go where it lay.
func lying(s *spaceStep, base mem.Addr) []wish.Entry {
	entries := make([]wish.Entry, len(s.requests))
	for i, r := range s.requests {
		place := uint64(0)
		if s.small || within(s.gaps, r.at, r.size) {
			place = uint64(r.at-base) / uint64(mem.Grain)
		}
		entries[i] = wish.Of(uint64(r.size/mem.Grain), place)
	}
	return entries
}

// wishesOf places the requests of a step in the gaps that the range had at its end.
func wishesOf(s *spaceStep, base mem.Addr) []wish.Entry {
	entries := make([]wish.Entry, len(s.requests))
	if s.small { // they cost no memory worth a plan
		return lying(s, base)
	}
	buffers := make([]plan.Buffer, len(s.requests))
	for i, r := range s.requests {
		if r.to < 0 {
			r.to = s.events
		}
		buffers[i] = plan.Buffer{Lower: r.from, Upper: r.to, Size: r.size}
		entries[i] = wish.Of(uint64(r.size/mem.Grain), 0)
	}
	if len(s.gaps) == 0 {
		return entries
	}
	origin := s.gaps[0].Addr
	var fixed []plan.Fixed
	for i, g := range s.gaps[1:] {
		before := s.gaps[i]
		fixed = append(fixed, plan.Fixed{
			From: mem.Offset(before.Addr - origin + mem.Addr(before.Size)), To: mem.Offset(g.Addr - origin), Until: s.events,
		})
	}
	last := s.gaps[len(s.gaps)-1]
	end := mem.Bytes(last.Addr-origin) + last.Size
	solved := solve(s.requests, buffers, s.events, fixed, end)
	// What stays may lie so that no plan fits around it. The step itself has fitted: then each
	// block goes where it lay, but for those that had a view. Not if other streams' work
	// decides when blocks end: where they lay tells nothing then.
	fits := solved.Makespan <= end
	if !fits && slices.ContainsFunc(s.requests, func(r lasting) bool { return r.late }) {
		return nil
	}
	for i, r := range s.requests {
		at := r.at
		if fits {
			at = origin + mem.Addr(solved.Offsets[i])
		}
		if fits || within(s.gaps, at, r.size) {
			entries[i] = wish.Of(uint64(r.size/mem.Grain), uint64(at-base)/uint64(mem.Grain))
		}
	}
	return entries
}

// within reports whether all of a block is in one of the gaps, which are in order.
func within(gaps []engine.Range, at mem.Addr, size mem.Bytes) bool {
	i, found := slices.BinarySearchFunc(gaps, at, func(g engine.Range, at mem.Addr) int { return cmp.Compare(g.Addr, at) })
	if !found {
		i--
	}
	return i >= 0 && at+mem.Addr(size) <= gaps[i].Addr+mem.Addr(gaps[i].Size)
}

// solve places blocks, given what is fixed. Those that other streams used keep their place
// for longer than they were seen to, until the last tick at most, as far as all fits all the
// same under the goal.
func solve(list []lasting, buffers []plan.Buffer, last mem.Tick, fixed []plan.Fixed, goal mem.Bytes) plan.Solution {
	late := slices.ContainsFunc(list, func(r lasting) bool { return r.late && r.to >= 0 })
	for margin := mem.Tick(mostMargin); late && margin > 0; margin /= 2 {
		longer := slices.Clone(buffers)
		for i, r := range list {
			if r.late && r.to >= 0 {
				longer[i].Upper = min(buffers[i].Upper+margin, last)
			}
		}
		if s := plan.SolveAround(longer, fixed, goal); s.Makespan <= goal {
			return s
		}
	}
	return plan.SolveAround(buffers, fixed, goal)
}
