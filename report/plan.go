package report

import (
	"path/filepath"
	"slices"
	"strings"

	"stalloc/internal/mem"
	"stalloc/plan"
)

// planMagic is what a plan file begins with.
const planMagic = "STALLOCP"

// loadPlan draws a plan as it would be served: set-up and the first steps, then one that
// repeats, the spaces of the streams one on top of the other.
func loadPlan(path string) (*Data, error) {
	p, err := plan.ReadFile(path)
	if err != nil {
		return nil, err
	}
	l := &ledger{}
	var heights []int
	var hold mem.Bytes
	for n := range p.Spaces {
		heights = append(heights, l.addSpace(&p.Spaces[n], hold)...)
		hold += p.Spaces[n].Hold
	}
	l.close()
	d := &Data{
		Name: strings.TrimSuffix(filepath.Base(path), ".plan"), Kind: Planned,
		Header: "a plan: where it wants each block, drawn until bytes of it are wanted again; a plan knows no frees",
		Events: len(l.load), Blocks: len(l.blocks), Steps: l.steps, Phases: l.phases, Reasons: reasons[:],
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
		HeldLow: []int{0}, HeldSize: []int{int(hold / mem.Grain)}, HeldBegin: []int{0}, HeldLife: []int{len(l.load)},
	}
	return d, nil
}

// addSpace adds the blocks of a space and returns their heights. A plan does not say when
// blocks are freed: each is drawn until a byte of it is wished again.
func (l *ledger) addSpace(s *plan.Space, below mem.Bytes) (heights []int) {
	type lying struct {
		from, to mem.Offset
		block    int
	}
	at := 0
	var there []lying
	for n, requests := range [][]plan.Request{s.First, s.Step} {
		if len(l.steps) == n {
			l.steps = append(l.steps, Step{Name: partNames[n], Begin: at})
			l.phases = append(l.phases, partNames[n])
		}
		at = max(at, l.steps[n].Begin)
		for _, r := range requests {
			if r.At == plan.Nowhere {
				continue
			}
			to := r.At + mem.Offset(r.Size)
			there = slices.DeleteFunc(there, func(x lying) bool {
				over := x.from < to && r.At < x.to
				if over {
					l.blocks[x.block].end = at
				}
				return over
			})
			there = append(there, lying{r.At, to, len(l.blocks)})
			l.blocks = append(l.blocks, block{begin: at, end: never, size: r.Size, stream: mem.StreamID(s.Ordinal), phase: n})
			heights = append(heights, int((below+mem.Bytes(r.At))/mem.Grain))
			at++
		}
		l.steps[n].End = max(l.steps[n].End, at)
	}
	return heights
}

// partNames names the two parts of a plan.
var partNames = [...]string{"set-up and first steps", "step"}

// never is the end of a block before the length of the timeline is known.
const never = -1

// close makes the load, once all blocks are there.
func (l *ledger) close() {
	n := 1
	for _, s := range l.steps {
		n = max(n, s.End+1)
	}
	change := make([]mem.Bytes, n+1)
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.end == never {
			b.end = n
		}
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
