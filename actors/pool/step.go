package pool

import (
	"stalloc/actors/step"
	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// EndStep ends a step of the policy, and returns what the planner is to know of it; nil: nothing.
func (p *Pool) EndStep() (*step.Observed, error) {
	if p.sleeps(0) { // what a boundary would do to memory can wait
		return nil, nil
	}
	_, err := p.run(engine.Event{Kind: engine.EvBoundary})
	return p.observed(), err
}

// observed takes what the log says of a step that has ended, and where its memory was then.
func (p *Pool) observed() *step.Observed {
	s := p.policy.Stats()
	o := &step.Observed{
		Streams: map[uint16]mem.StreamID{}, Gaps: map[step.Arena][]engine.Range{},
		Memory: step.Memory{Load: s.Load, Asleep: p.dev.Asleep(), Reserved: p.reserved(),
			Limit: p.limit},
		Return: p.Host.Return,
	}
	o.Events, o.Lost = p.take()
	for _, id := range p.policy.Streams() {
		o.Streams[p.policy.Ordinal(id)] = id
		for _, small := range []bool{false, true} {
			key := step.Arena{Stream: id, Small: small}
			p.policy.Gaps(id, small, func(r engine.Range) { o.Gaps[key] = append(o.Gaps[key], r) })
		}
	}
	return o
}

func (p *Pool) take() (events []schedule.Event, lost uint64) {
	events, lost = p.Host.Take()
	p.taken += uint64(len(events)) + lost
	return events, lost
}

// Logged returns how many requests and frees of the default pool there were so far.
func (p *Pool) Logged() uint64 { return p.taken + uint64(p.Host.Logged()) }
