package actors

import (
	"errors"

	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream/wish"
)

var (
	errLate    = errors.New("it comes too late")
	errNowhere = errors.New("there are no addresses for it")
)

// startWith serves an earlier run's plan, in the middle of the first segment.
func (s *supervisor) startWith(p *plan.Plan, skip []mem.Bytes) error {
	if s.start != nil || s.d.steps.Load() > 0 || s.d.generation.Load() > 0 {
		return errLate
	}
	s.start = p
	var errs []error
	for _, l := range *s.d.lanes.Load() {
		skip := skip
		if l.ordinal > 0 {
			skip = nil
		}
		errs = append(errs, s.begin(l, skip))
	}
	return errors.Join(errs...)
}

// begin has a stream begin with the plan of an earlier run, behind what it was served
// already.
func (s *supervisor) begin(l *lane, skip []mem.Bytes) error {
	d, p := s.d, s.start
	boundaries := p.Boundaries - int(d.steps.Load())
	if boundaries <= 0 {
		return nil
	}
	var first, steps [2]*Reel
	var least [2]leastLive
	loaded := &planLoaded{plan: p, steps: map[spaceKey]*Reel{}}
	some := false
	for i := range p.Spaces {
		x := &p.Spaces[i]
		if x.Ordinal != l.ordinal {
			continue
		}
		var at mem.Addr
		err := d.rare(func(q *pool) (err error) {
			at, err = q.expect(l.id, x.Small, x.Hold, p.Handle)
			return err
		}, nil)
		if err != nil || at == 0 {
			return errors.Join(errNowhere, err)
		}
		small, passed := 0, 0
		if x.Small {
			small = 1
		}
		for _, size := range skip {
			if smallOf(size, d.small) == small {
				passed++
			}
		}
		origin := uint64(at-d.base) / uint64(mem.Grain)
		first[small] = d.host.Build(wishes(x.First[min(passed, len(x.First)):], origin), false)
		least[small] = leastOf(x, min(passed, len(x.First)))
		steps[small] = d.host.Build(wishes(x.Step, origin), false)
		loaded.steps[spaceKey{l.id, x.Small}] = steps[small]
		some = true
	}
	if !some {
		return nil
	}
	if err := tell(d, l.pid, func(l *lane) error { l.open(first, steps, least, boundaries); return nil }); err != nil {
		return err
	}
	if d.planner != nil {
		d.root.Send(d.planner, loaded)
	}
	if l.ordinal == 0 {
		d.latest.Store(p)
		if p.Late != (plan.Valley{}) {
			d.late.valley.Store(&p.Late)
		}
		d.log.Info("plan active", zap.Uint64("generation", d.generation.Add(1)), zap.Int("requests", p.Requests()))
	}
	return nil
}

// A run that has less live than the plan's by one part in lighterBy of all that it holds is
// another one.
const lighterBy = 32

// leastOf returns how much must be live before each of a plan's requests, but for the first ones
// that have passed.
func leastOf(x *plan.Space, passed int) (l leastLive) {
	first, step := x.Loads()
	for _, loads := range [][]mem.Bytes{first, step} {
		for i := range loads {
			loads[i] -= x.Hold / lighterBy
		}
	}
	return leastLive{first[passed:], step}
}

// wishes makes entries of the requests of a plan, over a space that begins at origin.
func wishes(list []plan.Request, origin uint64) []wish.Entry {
	entries := make([]wish.Entry, len(list))
	for i, r := range list {
		place := uint64(0)
		if r.At != plan.Nowhere {
			place = origin + uint64(r.At)/uint64(mem.Grain)
		}
		entries[i] = wish.Of(uint64(r.Size/mem.Grain), place)
	}
	return entries
}
