package report

import (
	"path/filepath"
	"strings"

	"stalloc/internal/mem"
	"stalloc/plan"
)

// planMagic is what a plan file begins with.
const planMagic = "STALLOCP"

// loadPlan draws a plan as it would be served: its tapes one behind the other, the
// streams' arenas one on top of the other.
func loadPlan(path string) (*Data, error) {
	p, err := plan.ReadFile(path)
	if err != nil {
		return nil, err
	}
	l := &ledger{}
	var heights []int
	var arenas mem.Bytes
	for n := range p.Streams {
		heights = append(heights, l.addStream(&p.Streams[n], n, arenas)...)
		arenas += p.Streams[n].Arena
	}
	l.close()
	d := &Data{
		Name: strings.TrimSuffix(filepath.Base(path), ".plan"), Kind: Planned,
		Header: "a plan: blocks that it places, by the order in which it serves them",
		Events: len(l.load), Blocks: len(l.blocks), Steps: l.steps, Phases: l.phases, Reasons: reasons[:],
	}
	d.Peak = l.atPeak(nil)
	a := Allocator{Name: "plan", Reserved: arenas, Requests: int64(len(l.blocks))}
	if arenas > 0 {
		a.Fragmentation = 1 - float64(d.Peak.Load)/float64(arenas)
	}
	d.Allocators = []Allocator{a}
	r := &run{name: a.Name, reserved: make([]mem.Bytes, len(l.load))}
	for i := range r.reserved {
		r.reserved[i] = arenas
	}
	d.Curve = l.curve([]*run{r})
	d.Window = l.window(nil, []*run{r}, make([]reason, len(l.blocks)), len(l.blocks))
	d.Window.Maps[0] = Map{
		Height: arenas, Place: heights,
		HeldLow: []int{0}, HeldSize: []int{int(arenas / mem.Grain)}, HeldBegin: []int{0}, HeldLife: []int{len(l.load)},
	}
	return d, nil
}

// addStream adds the blocks of a stream's tapes and returns their heights. A slot that
// its tape does not free is there to the end of it, one that persists to the end of all.
func (l *ledger) addStream(s *plan.Stream, number int, below mem.Bytes) (heights []int) {
	at, lives := 0, make(map[int32]int)
	for n, tape := range s.Tapes {
		if n == len(l.steps) {
			l.steps = append(l.steps, Step{Name: tape.Kind.String(), Begin: at})
			l.phases = append(l.phases, tape.Kind.String())
		}
		for _, e := range tape.Entries {
			slot := s.Slots[e.Slot()]
			if slot.Pool {
				continue
			}
			if b, live := lives[e.Slot()]; e.Frees() {
				if live {
					l.blocks[b].end = at
				}
				delete(lives, e.Slot())
			} else {
				lives[e.Slot()] = len(l.blocks)
				l.blocks = append(l.blocks, block{begin: at, end: never, size: slot.Size, stream: mem.StreamID(number), phase: n})
				heights = append(heights, int((below+mem.Bytes(slot.Offset))/mem.Grain))
			}
			at++
		}
		for slot, b := range lives {
			if !s.Slots[slot].Persist {
				l.blocks[b].end = at
				delete(lives, slot)
			}
		}
		l.steps[n].End = max(l.steps[n].End, at)
		if n+1 < len(l.steps) {
			at = l.steps[n+1].Begin
		}
	}
	return heights
}

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
