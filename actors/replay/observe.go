package replay

import (
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/trace"
)

// Observe returns what each stream of a trace did in each step, for planning.
// The first element is set-up and the first step together (a plan's prologue),
// each further one a later step; what comes after the mark "end" is left out.
// Within an element streams stand in the order of their first request, nil
// where a stream had not begun. A trace without marks is one single step.
//
// Blocks whose free another stream puts off are excluded, see
// plan.Recorder.Exclude.
func Observe(tr *trace.Trace) [][]*plan.Step {
	o := observer{ordinal: make(map[mem.StreamID]int), owner: make(map[int64]int)}
	begun := 0
	for i := range tr.Events {
		e := &tr.Events[i]
		if e.Kind != trace.Mark {
			o.event(tr.Events, i)
			continue
		}
		if !Boundary(e.Mark) {
			continue
		}
		if begun > 0 {
			o.close()
		}
		begun++
		if e.Mark == "end" {
			return o.steps
		}
	}
	o.close()
	return o.steps
}

type observer struct {
	streams []*plan.Recorder
	ordinal map[mem.StreamID]int
	owner   map[int64]int // ordinal of each live block's stream
	steps   [][]*plan.Step
}

func (o *observer) event(events []trace.Event, i int) {
	switch e := &events[i]; e.Kind {
	case trace.Alloc:
		ordinal, ok := o.ordinal[e.Stream]
		if !ok {
			ordinal = len(o.streams)
			o.ordinal[e.Stream] = ordinal
			o.streams = append(o.streams, new(plan.Recorder))
		}
		o.owner[e.ID] = ordinal
		o.streams[ordinal].Alloc(uint64(e.ID), e.Size)
	case trace.FreeRequested:
		if ordinal, ok := o.owner[e.ID]; ok && Deferred(events, i) {
			o.streams[ordinal].Exclude(uint64(e.ID))
		}
	case trace.FreeCompleted:
		if ordinal, ok := o.owner[e.ID]; ok {
			o.streams[ordinal].Free(uint64(e.ID))
			delete(o.owner, e.ID)
		}
	}
}

// close ends the step on every stream.
func (o *observer) close() {
	step := make([]*plan.Step, len(o.streams))
	for i, recorder := range o.streams {
		step[i] = recorder.Boundary()
	}
	o.steps = append(o.steps, step)
}
