package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream"
)

// planner is the actor that turns observed steps into plans. It answers nobody,
// and its failing costs plans, never requests.
//
//	         step k           step k+1                boundary
//	making ─────────► trial ───────────► offered ───────────────► served
//	                    │ it serves badly                            │ so it does
//	                    ▼                                            ▼ now, twice
//	                 dropped                                     withdrawn
//
// A plan is offered only once a step that it was not made from has been replayed
// against it and would have been served well.
type planner struct {
	d         *Device
	recorders []plan.Recorder // by stream ordinal
	segments  int             // boundaries seen; the first segment may be set-up, or have it before the first step
	kinds     kinds
	room      room
	newest    newest
	beginning beginning
	valleys   valleys

	making  bool
	trial   *candidate // made, not judged yet
	offered *candidate // not served yet
	served  *candidate
	dropped []uint64   // versions of the kinds that the last plan that was dropped was made from
	last    *plan.Plan // the last plan made or loaded, to warm-start the next from

	patience int // boundaries that the offered plan has left to begin to serve
	bad      int // steps in a row that the served plan did not serve
	wasted   int // plans made in a row for kinds of step that have not come again
	wait     int // steps to let pass before another one
}

// newPlanner returns a planner that knows of the plan the device starts with.
func newPlanner(d *Device, start *plan.Plan) *planner {
	p := &planner{d: d}
	if start != nil {
		p.loaded(start)
	}
	return p
}

// loaded takes in an earlier run's plan, which is served from now on.
func (p *planner) loaded(start *plan.Plan) {
	p.last, p.beginning.saved = start, start
	if start.Late != (plan.Valley{}) {
		p.beginning.late = prologueOf(start)
	}
	p.offered, p.patience = &candidate{plan: start, tuning: stream.Tunings[0]}, activation
	// The load that the plan was made for is still to come; until then its arena
	// is no waste.
	var load mem.Bytes
	for i := range start.Streams {
		load += start.Streams[i].LowerBound
	}
	p.room.note(load)
}

// newest is the step that ended last.
type newest struct {
	steps []*plan.Step
	kind  *kind
	v     verdict // as it was really served
	// Freed blocks of the pool held so much while other streams used them.
	pending mem.Bytes
	gone    bool // the step was lost to the served plan
}

// A plan for a kind of step that has come once may be for nothing, and some
// workloads never repeat: after a few such plans in a row each one makes the wait
// before the next twice as long, up to maxWait steps in which one would be
// welcome. A kind that comes again ends the row.
const (
	freely  = 2
	maxWait = 64
	// A plan is offered at most one boundary before it serves its first step, and
	// that step is observed one boundary later.
	activation = 3
	// A plan that costs much memory, or is lost, two steps in a row is withdrawn.
	badSteps = 2
)

// Receive implements actor.Actor.
func (p *planner) Receive(ctx actor.Context) {
	defer p.survive()
	switch m := ctx.Message().(type) {
	case stepsWait:
		steps := p.d.inbox.take()
		for i, m := range steps {
			p.look(ctx, m, i == len(steps)-1)
			steps[i] = nil
		}
	case *solved:
		p.solved(m)
	case *refined:
		p.refined(m)
	case *planLoaded:
		p.loaded(m.plan)
	}
}

// survive is deferred where a bug may show: it costs what the planner knew.
func (p *planner) survive() {
	if r := recover(); r != nil {
		p.d.log.Error("the planner failed on one step and starts over with the next", zap.Any("panic", r))
		*p = planner{d: p.d, segments: 1, beginning: beginning{lost: true}}
	}
}

// look takes in what all streams observed in a step. Where another step has ended since,
// it is too late to judge anything by this one: it only has to be followed, for what
// lives and what is served.
func (p *planner) look(ctx actor.Context, m *stepEnded, last bool) {
	defer p.survive()
	steps, usable := p.record(m)
	p.segments++
	p.beginning.note(steps, usable && !m.gap)
	if m.found && p.segments == 1 {
		return // several steps: it takes that long to find the first
	}
	if !usable || requests(steps) == 0 || p.valleys.skip() {
		return
	}
	v := actual(m, steps)
	p.room.note(v.peak)
	p.d.room.Store(int64(p.room.most()))
	p.d.floor.Store(int64(floor(steps)))
	p.follow(m)
	if !last {
		return
	}
	well := p.served != nil && v.serves(p.allowed(&v))
	if !m.found && !(well && v.hits()) && p.moves(steps) {
		return
	}
	gone := slices.ContainsFunc(m.steps, func(o observed) bool { return o.gone })
	p.newest = newest{steps, p.kinds.note(steps, p.segments, p.servedAs(m, well && v.hits())), v, m.pending, gone}
	p.rate()
	p.consider()
	if p.welcome(well) {
		p.make(ctx.Self())
	}
	p.keep(m, well)
}

func requests(steps []*plan.Step) (n int64) {
	for _, s := range steps {
		n += s.Requests()
	}
	return n
}

// record feeds the recorders and closes their steps.
func (p *planner) record(m *stepEnded) (steps []*plan.Step, usable bool) {
	usable = true
	for i := range m.steps {
		o := &m.steps[i]
		for o.ordinal >= len(p.recorders) {
			p.recorders = append(p.recorders, plan.Recorder{})
		}
		r := &p.recorders[o.ordinal]
		if m.gap {
			r.Gap()
		}
		for _, e := range o.events {
			switch e.Kind {
			case EventHit:
				r.Alloc(uint64(e.Addr), e.Size)
			case EventMiss:
				r.Alloc(uint64(e.Addr), e.Size)
				r.Miss(uint64(e.Addr))
			case EventFree:
				r.Free(uint64(e.Addr))
			case EventPin:
				r.Exclude(uint64(e.Addr))
			}
		}
		for o.ordinal >= len(steps) {
			steps = append(steps, nil)
		}
		steps[o.ordinal] = r.Boundary()
		if o.lost {
			r.Gap()
			usable = false
		}
	}
	return steps, usable
}

// follow learns from the observation which plan was served.
func (p *planner) follow(m *stepEnded) {
	switch serving := func(c *candidate) bool {
		return c != nil && slices.ContainsFunc(m.steps, func(o observed) bool { return o.part != nil && o.part == part(c.plan, o.ordinal) })
	}; {
	case serving(p.offered):
		p.served, p.offered, p.bad = p.offered, nil, 0
	case !serving(p.served):
		p.served = nil
	}
	switch {
	case p.offered == nil:
	case p.offered.plan == m.waits: // for its arenas to be mapped: it is not late
		p.patience = activation
	default:
		if p.patience--; p.patience == 0 { // there was no memory for its arena
			p.offered = nil
		}
	}
}

// allowed returns the memory that a step may take before its plan is a waste: what
// the steps lately needed or, as long as nearly every request hits, what the plan was
// found good with. What an allocator without a plan would have reserved is only seen
// while there is none.
func (p *planner) allowed(v *verdict) mem.Bytes {
	if p.served != nil && v.hits() {
		return max(p.room.most(), p.served.memory)
	}
	return p.room.most()
}

// rate keeps count of how the served plan does, and withdraws it if it only costs
// memory.
func (p *planner) rate() {
	v := &p.newest.v
	if p.d.opts.Always {
		return
	}
	if p.newest.kind.seen == 2 && !p.newest.kind.varies() {
		p.wasted, p.wait = 0, 0
	}
	if p.served == nil || !p.newest.gone && !v.over(p.allowed(v), slackHits) {
		p.bad = 0
		return
	}
	if p.bad++; p.bad >= badSteps {
		p.d.log.Info("the steps are no longer like the plan; it is withdrawn", zap.Stringer("memory", v.memory), zap.Stringer("load", v.peak))
		p.d.root.Send(p.d.supervisor, &planReady{})
		p.served, p.bad = nil, 0
	}
}
