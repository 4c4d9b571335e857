package report

import (
	"fmt"
	"path/filepath"
	"strings"

	"stalloc/internal/mem"
	"stalloc/plan"
)

// planMagic is what a plan file begins with.
const planMagic = "STALLOCP"

// mostPlaced is how many requests of a plan are drawn: to place them takes time with the square of
// their number at worst, some seconds here.
const mostPlaced = 1 << 16

// loadPlan draws the steps of a plan, one after the other, each as it would lie in a space of its
// own.
func loadPlan(path string) (*Data, error) {
	p, err := plan.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(p.Steps) == 0 {
		return nil, fmt.Errorf("%s: a plan without steps: run the program for longer, so that some come again", path)
	}
	if n := p.Requests(); n > mostPlaced {
		return nil, fmt.Errorf("%s: a plan of %d requests; of at most %d they are drawn", path, n,
			mostPlaced)
	}
	l := &ledger{}
	var heights []int
	var hold mem.Bytes
	for i := range p.Steps {
		placed := p.Steps[i].Placed()
		l.addStep(&p.Steps[i])
		for _, at := range placed.Offsets {
			heights = append(heights, int(mem.Bytes(at)/mem.Grain))
		}
		hold = max(hold, placed.Makespan)
	}
	l.close()
	d := &Data{
		Name: strings.TrimSuffix(filepath.Base(path), ".plan"), Kind: Planned,
		Header: "a plan: the steps that came again, and where their blocks may lie; a run places them around what it has",
		Events: len(l.load), Blocks: len(l.blocks), Steps: l.steps, Phases: l.phases,
		Reasons: reasons[:],
	}
	d.Peak = l.atPeak(nil)
	a := Allocator{Name: "plan", Reserved: hold, Requests: int64(len(l.blocks))}
	if hold > 0 {
		a.Fragmentation = 1 - float64(d.Peak.Load)/float64(hold)
	}
	d.Allocators = []Allocator{a}
	r := &run{name: a.Name, reserved: make([]mem.Bytes, len(l.load))}
	for i := range r.reserved {
		r.reserved[i] = hold
	}
	d.Curve = l.curve([]*run{r})
	d.Window = l.window(nil, []*run{r}, make([]reason, len(l.blocks)), len(l.blocks))
	d.Window.Maps[0] = Map{
		Height: hold, Place: heights,
		HeldLow: []int{0}, HeldSize: []int{int(hold / mem.Grain)}, HeldBegin: []int{0},
		HeldLife: []int{len(l.load)},
	}
	return d, nil
}

// addStep adds the blocks of a step.
func (l *ledger) addStep(s *plan.Step) {
	begin := 0
	if n := len(l.steps); n > 0 {
		begin = l.steps[n-1].End
	}
	name := fmt.Sprintf("stream %d", s.Stream)
	phase, end := len(l.phases), begin+int(s.End())
	l.steps = append(l.steps, Step{Name: name, Begin: begin, End: end})
	l.phases = append(l.phases, name)
	for _, r := range s.Requests {
		b := block{begin: begin + int(r.From), end: end, size: r.Size,
			stream: mem.StreamID(s.Stream), phase: phase}
		if r.Done != plan.Never {
			b.end = begin + int(r.Done)
		}
		b.freed = b.end
		l.blocks = append(l.blocks, b)
	}
}

// close makes the load, once all blocks are there.
func (l *ledger) close() {
	n := 1
	for _, s := range l.steps {
		n = max(n, s.End+1)
	}
	change := make([]mem.Bytes, n+1)
	for i := range l.blocks {
		b := &l.blocks[i]
		change[b.begin] += b.size
		change[b.end] -= b.size
	}
	l.load, l.micros, l.of = make([]mem.Bytes, n), make([]int64, n), make([]int32, n)
	var load mem.Bytes
	for i := range l.load {
		load += change[i]
		l.load[i], l.micros[i] = load, int64(i)
		if load > l.load[l.peak] {
			l.peak = i
		}
	}
	for i := range l.steps {
		s := &l.steps[i]
		for at := s.Begin; at < min(s.End, n); at++ {
			s.Peak = max(s.Peak, l.load[at])
		}
	}
}
