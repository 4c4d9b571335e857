package report

import (
	"sort"
	"strings"

	"stalloc/internal/mem"
	"stalloc/replay"
	"stalloc/trace"
)

// block is one request and its life, by events.
type block struct {
	id         int64
	begin, end int // end is len(events) for a block that is never freed
	// when its free was asked for: from then on it is no load, and may wait for other streams
	freed  int
	size   mem.Bytes
	stream mem.StreamID
	phase  int
	late   bool // its free waited for other streams
}

// ledger is a recording by blocks instead of events.
type ledger struct {
	blocks []block // in the order of their requests
	of     []int32 // by event: the block it requests, -1 for any other event
	micros []int64 // by event, never falling
	load   []mem.Bytes
	steps  []Step
	phases []string
	marked bool // the phases are the recording's own
	peak   int  // the event after which the load is the largest
}

const (
	// setUp is the phase, and the step, of what comes before the first step.
	setUp = "set-up"
	// unmarked is the one step of a recording without marks.
	unmarked = "the whole recording"
)

func newLedger(tr *trace.Trace) *ledger {
	n := len(tr.Events)
	l := &ledger{of: make([]int32, n), micros: make([]int64, n), load: make([]mem.Bytes, n)}
	at := make(map[int64]int) // live blocks, by id
	var now int64
	var load mem.Bytes
	for i := range tr.Events {
		e := &tr.Events[i]
		if e.Kind != trace.Mark {
			now = max(now, e.Micros)
		}
		l.of[i], l.micros[i] = -1, now
		switch e.Kind {
		case trace.Alloc:
			at[e.ID] = len(l.blocks)
			l.of[i] = int32(len(l.blocks))
			l.blocks = append(l.blocks, block{id: e.ID, begin: i, end: n, freed: n, size: e.Size,
				stream: e.Stream})
			load += mem.Round(e.Size)
		case trace.FreeRequested:
			b := &l.blocks[at[e.ID]]
			b.freed, b.late = i, replay.Deferred(tr.Events, i)
			load -= mem.Round(b.size)
		case trace.FreeCompleted:
			l.blocks[at[e.ID]].end = i
			delete(at, e.ID)
		}
		if l.load[i] = load; load > l.load[l.peak] {
			l.peak = i
		}
	}
	l.findSteps(tr)
	l.findPhases(tr)
	return l
}

// findSteps lists the steps, and the set-up as one if anything is requested in it. A
// recording without marks is one step.
func (l *ledger) findSteps(tr *trace.Trace) {
	for _, s := range tr.Steps() {
		if s[0] < s[1] {
			l.steps = append(l.steps, Step{Name: tr.Events[s[0]-1].Mark, Begin: s[0], End: s[1]})
		}
	}
	first := len(tr.Events)
	if len(l.steps) > 0 {
		first = l.steps[0].Begin
	}
	if len(l.blocks) > 0 && l.blocks[0].begin < first {
		name := setUp
		if len(l.steps) == 0 {
			name = unmarked
		}
		l.steps = append([]Step{{Name: name, End: first}}, l.steps...)
	}
	for i := range l.steps {
		s := &l.steps[i]
		s.peakAt = s.Begin
		for at := s.Begin; at < s.End; at++ {
			if l.load[at] > l.load[s.peakAt] {
				s.peakAt = at
			}
		}
		s.Peak = l.load[s.peakAt]
	}
}

// stepAt returns the number of the step that an event is in; one between steps, or
// after the last, counts to the one before.
func (l *ledger) stepAt(event int) int {
	return max(sort.Search(len(l.steps), func(i int) bool { return l.steps[i].Begin > event })-1, 0)
}

// findPhases names the phase that each block was requested in: the last mark within its
// step, without its numbers. Where steps have no marks inside, what comes up to the
// step's peak is told from what comes after it.
func (l *ledger) findPhases(tr *trace.Trace) {
	number := make(map[string]int)
	phase := func(name string) int {
		n, ok := number[name]
		if !ok {
			n = len(l.phases)
			number[name] = n
			l.phases = append(l.phases, name)
		}
		return n
	}
	mark := ""
	for i := range tr.Events {
		e := &tr.Events[i]
		switch {
		case e.Kind == trace.Mark && (replay.Boundary(e.Mark) || e.Mark == "setup"):
			mark = ""
		case e.Kind == trace.Mark:
			mark = strings.TrimRight(e.Mark, " 0123456789")
			l.marked = l.marked || mark != ""
		case l.of[i] >= 0:
			b := &l.blocks[l.of[i]]
			if b.phase = -1; mark != "" {
				b.phase = phase(mark)
			}
		}
	}
	for i := range l.blocks {
		if b := &l.blocks[i]; b.phase < 0 {
			b.phase = phase(l.inferred(b.begin))
		}
	}
	l.orderPhases()
}

// inferred names the phase of an event that no mark inside its step covers.
func (l *ledger) inferred(event int) string {
	s := &l.steps[l.stepAt(event)]
	switch {
	case s.Name == setUp:
		return setUp
	case l.marked:
		return "before the first mark"
	case event <= s.peakAt:
		return upToPeak
	}
	return afterPeak
}

const (
	upToPeak  = "up to the step's peak"
	afterPeak = "after the step's peak"
	// earlierStep stands for both where a block was there before the step in question.
	earlierStep = "an earlier step"
)

// orderPhases sorts the phases by how they follow each other in a program.
func (l *ledger) orderPhases() {
	rank := func(name string) int {
		for i, word := range []string{setUp, "forward", upToPeak, "backward", afterPeak,
			"optimizer"} {
			if strings.Contains(name, word) {
				return i
			}
		}
		return 10
	}
	order := make([]int, len(l.phases))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order,
		func(a, b int) bool { return rank(l.phases[order[a]]) < rank(l.phases[order[b]]) })
	to, names := make([]int, len(order)), make([]string, len(order))
	for n, old := range order {
		to[old], names[n] = n, l.phases[old]
	}
	l.phases = names
	for i := range l.blocks {
		l.blocks[i].phase = to[l.blocks[i].phase]
	}
}
