package report

import (
	"cmp"
	"fmt"
	"slices"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// Finding is something that lifetimes tell of a program's memory, and what to do about it.
// A recording knows requests and frees, not reads: what a block is used for is a guess, what
// it takes is not.
type Finding struct {
	Kind  string    `json:"kind"`
	Bytes mem.Bytes `json:"bytes"` // of the peak; of a leak, those of all steps together
	Text  string    `json:"text"`
	Do    string    `json:"do"`
}

// The kinds of findings.
const (
	Across    = "across"    // live across the peak, long before and long after it
	Gradients = "gradients" // of the step before, and live at the peak
	Stream    = "stream"    // a stream's share at its own peak, beyond that at the run's
	Leak      = "leak"      // never freed, and more in every step
	Logits    = "logits"    // come right before the peak and go right after it
	Optimizer = "optimizer" // what the optimizer's step makes for itself, at a peak within it
	States    = "states"    // of the optimizer, idle between its steps: what their absence saves
)

const (
	// leastFinding is the share of the peak that is worth a sentence.
	leastFinding = 0.01
	// aside is the share of a step by which a block must be older than the peak, and outlive it.
	aside = 1.0 / 20
)

// findings lists what is worth a sentence, the largest first.
func (l *ledger) findings(stacks *trace.Stacks, more ...Finding) []Finding {
	least := mem.Bytes(leastFinding * float64(l.load[l.peak]))
	found := []Finding{}
	for _, f := range append(more, l.across(stacks), l.atOnce(stacks), l.kept(stacks), l.streams(),
		l.leak(stacks)) {
		if f.Bytes > 0 && (f.Bytes >= least || f.Kind == Leak) {
			found = append(found, f)
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return found
}

// gathered is some blocks, and the largest group among them.
type gathered struct {
	bytes  mem.Bytes
	blocks int
	groups map[string]*DiffGroup
}

func (g *gathered) add(l *ledger, stacks *trace.Stacks, b *block) {
	what := l.whatOf(stacks, b)
	if g.groups == nil {
		g.groups = make(map[string]*DiffGroup)
	}
	if g.groups[what] == nil {
		g.groups[what] = &DiffGroup{What: what}
	}
	size := mem.Round(b.size)
	g.bytes, g.blocks = g.bytes+size, g.blocks+1
	g.groups[what].New += size
	g.groups[what].NewBlocks++
}

// whatOf names what a block is: the frame that requested it, or its size and phase.
func (l *ledger) whatOf(stacks *trace.Stacks, b *block) string {
	if n := stacks.Of(b.id); n >= 0 {
		return frameOf(stacks.Texts()[n])
	}
	phase := l.phases[b.phase]
	if l.marked || phase == setUp {
		phase = "in " + phase
	}
	return fmt.Sprintf("%v, requested %s", b.size, phase)
}

// most names the largest group: "most of it 64 × 88.00 MiB in forward".
func (g *gathered) most() string {
	var most DiffGroup
	for _, of := range g.groups {
		if of.New > most.New || of.New == most.New && of.What < most.What {
			most = *of
		}
	}
	return fmt.Sprintf("%v of it are %d × %s", most.New, most.NewBlocks, most.What)
}

// across are the blocks of the peak's step that are there long before the peak and long after:
// in training mostly what forward keeps for backward.
func (l *ledger) across(stacks *trace.Stacks) Finding {
	s := &l.steps[l.stepAt(l.peak)]
	if s.Name == setUp {
		return Finding{}
	}
	margin := int(aside * float64(s.End-s.Begin))
	var g gathered
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.begin >= s.Begin && b.end < s.End && b.begin <= l.peak-margin &&
			b.end > l.peak+margin {
			g.add(l, stacks, b)
		}
	}
	if g.blocks == 0 {
		return Finding{}
	}
	return Finding{Across, g.bytes,
		fmt.Sprintf("%v at the peak (%d blocks) are requested long before it and freed long after, within the step; %s.", g.bytes, g.blocks, g.most()),
		"Where they are activations that wait for backward, recompute them (torch.utils.checkpoint) or offload them (stalloc.offload_activations)."}
}

// kept are the blocks at the peak that are of the step before it and freed in this one.
func (l *ledger) kept(stacks *trace.Stacks) Finding {
	at := l.stepAt(l.peak)
	if at == 0 || l.steps[at-1].Name == setUp {
		return Finding{}
	}
	s, before := &l.steps[at], &l.steps[at-1]
	var g gathered
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.begin >= before.Begin && b.begin < s.Begin && b.end > l.peak && b.end < s.End {
			g.add(l, stacks, b)
		}
	}
	if g.blocks == 0 {
		return Finding{}
	}
	return Finding{Gradients, g.bytes,
		fmt.Sprintf("%v at the peak (%d blocks) are of the step before and freed in this one; %s.",
			g.bytes, g.blocks, g.most()),
		"Where they are gradients, call optimizer.zero_grad(set_to_none=True) right after optimizer.step(), not after the next forward; where they are outputs or losses, let go of them before the next step."}
}

// streams is what streams hold at their own peaks beyond what they hold at that of the run: a
// caching allocator keeps it for them, and serves no other stream from it.
func (l *ledger) streams() Finding {
	type share struct{ now, peak, then mem.Bytes }
	of := make(map[mem.StreamID]*share)
	ends := make([]int32, len(l.load)) // by event: the block that ends there, from 1
	for i := range l.blocks {
		if of[l.blocks[i].stream] == nil {
			of[l.blocks[i].stream] = &share{}
		}
		if end := l.blocks[i].end; end < len(ends) {
			ends[end] = int32(i) + 1
		}
	}
	for event, block := range l.of {
		if block >= 0 {
			s, size := of[l.blocks[block].stream], mem.Round(l.blocks[block].size)
			s.now += size
			s.peak = max(s.peak, s.now)
		}
		if ends[event] > 0 {
			b := &l.blocks[ends[event]-1]
			of[b.stream].now -= mem.Round(b.size)
		}
		if event == l.peak {
			for _, s := range of {
				s.then = s.now
			}
		}
	}
	var all, most mem.Bytes
	var which mem.StreamID
	for id, s := range of {
		idle := s.peak - s.then
		if all += idle; idle > most || idle == most && id < which {
			most, which = idle, id
		}
	}
	if len(of) < 2 || most == 0 {
		return Finding{}
	}
	return Finding{Stream, all,
		fmt.Sprintf("%v are what %d streams need at their own peaks beyond the run's; %v of it stream %d, which holds %v at the run's peak and %v at its own. A caching allocator keeps that for the stream.",
			all, len(of), most, which, of[which].then, of[which].peak),
		"Allocate on one stream what can be (and tell the others with Tensor.record_stream), or use fewer streams."}
}
