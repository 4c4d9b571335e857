package offload

import (
	"stalloc/internal/mem"
	"stalloc/plan/residency"
	"stalloc/trace"
)

// handle is how much of the states moves at once, at least.
const handle = 32 * mem.MiB

// Answer is in how little a run fits with its optimizer states offloaded.
type Answer struct {
	States mem.Bytes       // of the blocks of 1 MiB or more
	Blocks int             // so many
	Marked bool            // the recording says where the optimizer begins
	Whole  mem.Bytes       // what the run needs with them on the device
	Fits   mem.Bytes       // what it needs without
	Step   residency.Nanos // how long a step takes, on average, but for the first
	Longer residency.Nanos // how much longer, in the worst, with Fits
}

// Tell answers for a recording. It fails where it finds no states.
func Tell(t *trace.Trace, link residency.Link) (Answer, error) {
	s, err := find(t)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{States: s.bytes, Blocks: s.blocks, Marked: s.marked}
	steps := t.Steps()
	r := reader{live: make(map[int64]mem.Bytes), events: t.Events}
	r.until(steps[1][0], nil)
	a.Fits, a.Whole = r.peak, t.PeakLoad()
	begun := r.micros
	var problems []*residency.Problem
	for _, step := range steps[1:] {
		p := r.step(&s, step, link)
		least, err := residency.Least(p)
		if err != nil {
			return a, err
		}
		a.Fits = max(a.Fits, least)
		problems = append(problems, p)
	}
	a.Step = residency.Nanos(r.micros-begun) * 1000 / residency.Nanos(len(problems))
	for _, p := range problems {
		p.Limit = a.Fits
		plan, err := residency.Solve(p)
		if err != nil {
			return a, err
		}
		a.Longer = max(a.Longer, plan.Wait)
	}
	return a, nil
}

// reader follows the load of a recording.
type reader struct {
	events     []trace.Event
	next       int
	live       map[int64]mem.Bytes
	load, peak mem.Bytes
	micros     int64
}

// until reads on to a place; each, if any, hears of all events.
func (r *reader) until(place int, each func(at int)) {
	for ; r.next < place; r.next++ {
		switch e := &r.events[r.next]; e.Kind {
		case trace.Mark:
		case trace.Alloc:
			r.live[e.ID] = mem.Round(e.Size)
			r.load += r.live[e.ID]
		case trace.FreeRequested:
			r.load -= r.live[e.ID]
			delete(r.live, e.ID)
		}
		r.micros = max(r.micros, r.events[r.next].Micros)
		r.peak = max(r.peak, r.load)
		if each != nil {
			each(r.next)
		}
	}
}

// step reads a step. Its time 0 is the end of the one before, which is that of the optimizer's
// step; each event has a time of its own, so that the highest load at a time is not lost.
func (r *reader) step(s *states, step [2]int, link residency.Link) *residency.Problem {
	r.until(step[0], nil)
	p := &residency.Problem{Link: link, Handle: handle}
	begun, now := r.micros, residency.Nanos(0)
	needed := step[0] + s.begins(r.events[step[0]:step[1]])
	states := residency.Item{Size: s.bytes, Parts: true}
	p.Load = append(p.Load, residency.Load{From: 0, Bytes: r.load - s.bytes})
	r.until(step[1], func(at int) {
		now = max(now+1, residency.Nanos(r.micros-begun)*1000)
		load := r.load
		if at == needed {
			states.Need = now
		}
		if at < needed {
			load -= s.bytes
		}
		p.Load = append(p.Load, residency.Load{From: now, Bytes: load})
	})
	p.Items = []residency.Item{states}
	return p
}
