package report

import (
	"fmt"
	"strings"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// atOnce is what comes and goes with the peak: in training mostly the loss's logits, their softmax
// and their gradient, or, where the peak is in the optimizer, the copies that it makes.
func (l *ledger) atOnce(stacks *trace.Stacks) Finding {
	s := &l.steps[l.stepAt(l.peak)]
	if s.Name == setUp {
		return Finding{}
	}
	optimizer := l.inOptimizer(stacks)
	margin := int(aside * float64(s.End-s.Begin))
	var those []*block
	var largest mem.Bytes
	for i := range l.blocks {
		b := &l.blocks[i]
		switch {
		case b.begin < s.Begin || b.begin > l.peak || b.end <= l.peak || b.end >= s.End:
		case optimizer && l.optimizers(stacks, b), !optimizer && l.peak-b.begin < margin &&
			b.end-l.peak <= margin:
			those, largest = append(those, b), max(largest, b.size)
		}
	}
	var g gathered
	for _, b := range those {
		if optimizer || 2*b.size >= largest {
			g.add(l, stacks, b)
		}
	}
	switch {
	case g.blocks == 0:
		return Finding{}
	case optimizer:
		return Finding{Optimizer, g.bytes,
			fmt.Sprintf("%v at the peak (%d blocks) are made by the optimizer's step and gone before the next; %s.", g.bytes, g.blocks, g.most()),
			"Give the optimizer fused=True or foreach=False: its default works on copies of all parameters at once."}
	}
	return Finding{Logits, g.bytes,
		fmt.Sprintf("%v at the peak (%d blocks) come right before it and go right after; %s.",
			g.bytes, g.blocks, g.most()),
		"Where they are the loss's logits and their gradient, compute the loss in chunks of the sequence or by a fused kernel, which keeps no logits."}
}

// inOptimizer reports whether the block that the peak was reached with is the optimizer's.
func (l *ledger) inOptimizer(stacks *trace.Stacks) bool {
	return l.of[l.peak] >= 0 && l.optimizers(stacks, &l.blocks[l.of[l.peak]])
}

// optimizers reports whether a block was requested by an optimizer: its frames say so, or the
// marks of the recording.
func (l *ledger) optimizers(stacks *trace.Stacks, b *block) bool {
	if n := stacks.Of(b.id); n >= 0 {
		return strings.Contains(stacks.Texts()[n], "/torch/optim/")
	}
	return strings.Contains(l.phases[b.phase], "optimizer")
}
