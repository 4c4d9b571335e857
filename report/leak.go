package report

import (
	"fmt"

	"stalloc/internal/mem"
	"stalloc/trace"
)

const (
	// leastLeak is the share of the peak that a leak is worth a sentence for, in each step.
	leastLeak = 1.0 / 2000
	// leakParts is in how many parts a recording without steps is looked at for a leak.
	leakParts = 8
	// The optimizer makes its state in the first two steps.
	leakFirst = 2
)

// parts are the steps of a recording by name, or equal parts of one without steps, by events;
// over is where a block has to be live to count as never freed.
func (l *ledger) parts() (parts [][2]int, unit string, over int) {
	for _, s := range l.steps {
		switch s.Name {
		case setUp:
		case unmarked:
			for i := range leakParts {
				parts = append(parts, [2]int{i * s.End / leakParts, (i + 1) * s.End / leakParts})
			}
			return parts, "eighth of the recording", len(l.load)
		default:
			parts = append(parts, [2]int{s.Begin, s.End})
			over = s.End
		}
	}
	return parts, "step", over
}

// leak is what is requested in every step, the same each time, and never freed. The first
// steps, and the last, whose gradients may be live, do not count.
func (l *ledger) leak(stacks *trace.Stacks) Finding {
	parts, unit, over := l.parts()
	last := len(parts) - 1
	if last < leakFirst+2 {
		return Finding{}
	}
	// By what blocks are: in how many parts there are some that stay.
	type kind struct{ parts, latest int }
	kinds := make(map[string]*kind)
	var staying []*block
	at := 0
	for i := range l.blocks {
		b := &l.blocks[i]
		for at < last && b.begin >= parts[at][1] {
			at++
		}
		if at < leakFirst || at >= last || b.begin < parts[at][0] || b.end < over {
			continue
		}
		staying = append(staying, b)
		what := l.whatOf(stacks, b)
		if kinds[what] == nil {
			kinds[what] = &kind{}
		}
		if k := kinds[what]; k.latest != at {
			k.parts, k.latest = k.parts+1, at
		}
	}
	var g gathered
	for _, b := range staying {
		if kinds[l.whatOf(stacks, b)].parts == last-leakFirst {
			g.add(l, stacks, b)
		}
	}
	each := g.bytes / mem.Bytes(last-leakFirst)
	if g.blocks == 0 || float64(each) < leastLeak*float64(l.load[l.peak]) {
		return Finding{}
	}
	return Finding{Leak, g.bytes,
		fmt.Sprintf("Live memory rises by %v in every %s: %v (%d blocks) are never freed; %s.",
			each, unit, g.bytes, g.blocks, g.most()),
		"Look for a list or an attribute that keeps tensors: a loss that is summed up with its graph (use loss.item()), outputs or hooks that are collected."}
}
