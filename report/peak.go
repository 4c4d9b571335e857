package report

import (
	"stalloc/internal/mem"
	"stalloc/trace"
)

// Peak is what was live when the load was the largest.
type Peak struct {
	Event  int       `json:"event"`
	Step   int       `json:"step"`
	Micros int64     `json:"micros"`
	Load   mem.Bytes `json:"load"`
	// Kept is what was there before the step or stays after it: weights, the optimizer's
	// state. The rest comes and goes within the step, and grows with the batch.
	Kept   mem.Bytes `json:"kept"`
	Blocks int       `json:"blocks"`
	// By is the same blocks, grouped one way and another, the way to begin with first.
	By     []Grouping  `json:"by"`
	Stacks []StackPart `json:"stacks,omitempty"` // the largest first
}

// StackPart is what one call stack holds of the peak.
type StackPart struct {
	Stack int       `json:"stack"`
	Bytes mem.Bytes `json:"bytes"`
	Count int       `json:"count"`
}

// atPeak lists what is live at the peak. It takes time and memory in proportion to the blocks.
func (l *ledger) atPeak(stacks *trace.Stacks) Peak {
	at := l.peak
	p := Peak{Event: at, Step: l.stepAt(at), Micros: l.micros[at], Load: l.load[at]}
	step := l.steps[p.Step]
	var live []*block
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.begin > at || b.freed <= at {
			continue
		}
		live = append(live, b)
		if p.Blocks++; l.outlives(b, step) {
			p.Kept += mem.Round(b.size)
		}
	}
	ways := []string{ByShape, ByPhase}
	if stacks != nil {
		ways = []string{ByFrame, ByModule, ByShape, ByPhase}
		p.Stacks = stackParts(stacks, live)
	}
	for _, way := range ways {
		p.By = append(p.By, l.group(stacks, live, step, way))
	}
	return p
}

// outlives reports whether a block was there before a step, or stays after it.
func (l *ledger) outlives(b *block, step Step) bool {
	return b.begin < step.Begin ||
		b.end >= step.End
}

// Worth is what stalloc's savings against another allocator would buy on the smallest device
// that the run fits in under the other. In how much a larger batch would run at full speed
// only a replay of it could tell.
type Worth struct {
	Against string    `json:"against"`
	Device  mem.Bytes `json:"device"`
	Saved   mem.Bytes `json:"saved"` // of it under stalloc; negative: it needs more
	// More is by how much what grows with the batch could grow before stalloc does not fit
	// either, as a share of it. Gradients, which do not grow, are counted with it: it is a
	// lower bound.
	More float64 `json:"more"`
}

// margin is the share of the load that is not counted as room: larger blocks lie otherwise,
// and what one run needs above its load is not exactly what another does.
const margin = 0.01

func worth(d *Data) []Worth {
	fits, _ := d.figures()
	ours, load := fits["stalloc"], float64(d.Peak.Load)
	var all []Worth
	for _, name := range compared[:len(compared)-1] {
		if ours == 0 || fits[name] == 0 {
			continue
		}
		w := Worth{Against: name, Device: fits[name], Saved: fits[name] - ours}
		if grows := load - float64(d.Peak.Kept); grows > 0 {
			w.More = max(0, load*(float64(w.Device)/float64(ours)-1-margin)/grows)
		}
		all = append(all, w)
	}
	return all
}

// Room is the worth against the better rival, the one that fits in less; nil: nobody looked.
func (d *Data) Room() *Worth {
	var least *Worth
	for i := range d.Worth {
		if w := &d.Worth[i]; least == nil || w.Device < least.Device {
			least = w
		}
	}
	return least
}
