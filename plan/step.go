package plan

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
)

// Op is one event of an observed step: the allocation or the free of a block.
type Op struct {
	Block int32 // indexes Step.Blocks
	Free  bool
}

// Block is one block seen during a step.
type Block struct {
	Size mem.Bytes // rounded
	// Alloc and Free are places in Step.Ops. Alloc is -1 if the block was live
	// before the step, Free is len(Step.Ops) if it outlives the step.
	Alloc, Free int32
	// Pinned says that another stream used the block, so its end cannot be
	// foreseen and it gets no address, see Recorder.Exclude.
	Pinned bool
	// Missed says that the block was handed out beside the plan, see
	// Recorder.Miss.
	Missed bool
	// Passes says that the block outlives the step and is known to have been freed
	// in a later one, so it is no block that persists. A Recorder cannot know.
	Passes bool
}

// Step is what was observed on one stream between two step boundaries.
type Step struct {
	Ops    []Op
	Blocks []Block
}

// Peaks returns the largest load of the step, what it inherited included: of all
// blocks, and of those that were missed.
func (s *Step) Peaks() (all, missed mem.Bytes) {
	var load, beside mem.Bytes
	s.replay(func(b Block, change mem.Bytes, _ bool) {
		load += change
		if b.Missed {
			beside += change
		}
		all, missed = max(all, load), max(missed, beside)
	})
	return all, missed
}

// Floor returns the lowest load in the step: what neither it nor the next frees, and
// little more.
func (s *Step) Floor() (least mem.Bytes) {
	var load mem.Bytes
	s.replay(func(_ Block, change mem.Bytes, inherited bool) {
		load += change
		if inherited {
			least = load
		}
		least = min(least, load)
	})
	return least
}

// replay calls f with each change of the load: the blocks that the step inherits, then its
// requests and frees.
func (s *Step) replay(f func(b Block, change mem.Bytes, inherited bool)) {
	for _, b := range s.Blocks {
		if b.Alloc < 0 {
			f(b, b.Size, true)
		}
	}
	for _, op := range s.Ops {
		if b := s.Blocks[op.Block]; op.Free {
			f(b, -b.Size, false)
		} else {
			f(b, b.Size, false)
		}
	}
}

// Requests returns how many requests the step made; nil, a stream without events,
// made none.
func (s *Step) Requests() (n int64) {
	if s == nil {
		return 0
	}
	for _, b := range s.Blocks {
		if b.Alloc >= 0 {
			n++
		}
	}
	return n
}

// Join returns the two steps as one, as if there had been no boundary between
// them. Either may be nil: the stream had not begun, or has ended.
func Join(first, second *Step) *Step {
	if first == nil || second == nil {
		return cmp.Or(first, second)
	}
	joined := &Step{Ops: slices.Clone(first.Ops), Blocks: slices.Clone(first.Blocks)}
	seam := int32(len(first.Ops))
	// The second step inherits what the first left live, in the same order.
	moved := make([]int32, len(second.Blocks))
	from := 0
	for i, b := range second.Blocks {
		b.Free += seam
		if b.Alloc >= 0 {
			b.Alloc += seam
			moved[i] = int32(len(joined.Blocks))
			joined.Blocks = append(joined.Blocks, b)
			continue
		}
		for joined.Blocks[from].Free < seam {
			from++
		}
		moved[i] = int32(from)
		joined.Blocks[from].Free = b.Free
		joined.Blocks[from].Pinned = b.Pinned
		from++
	}
	for _, op := range second.Ops {
		joined.Ops = append(joined.Ops, Op{Block: moved[op.Block], Free: op.Free})
	}
	return joined
}

// transient reports whether the block begins and ends within s.
func (s *Step) transient(b Block) bool {
	return !b.Pinned && b.Size > 0 && b.Alloc >= 0 && int(b.Free) < len(s.Ops)
}

// crossing tells which of the blocks that outlive s will be freed in the next
// step and come again, like a loss that is kept until the next one replaces it.
// The evidence is a block of that size that s itself inherited and freed; what
// outlives a step without such a twin is taken to stay for good, like the
// optimizer's state that the first step makes.
func (s *Step) crossing() map[int32]bool {
	inherited := make(map[mem.Bytes]int)
	for _, b := range s.Blocks {
		if b.Alloc < 0 && int(b.Free) < len(s.Ops) {
			inherited[b.Size]++
		}
	}
	crosses := make(map[int32]bool)
	for i := len(s.Blocks) - 1; i >= 0 && len(inherited) > 0; i-- {
		if b := s.Blocks[i]; b.Alloc >= 0 && s.outlives(b) && inherited[b.Size] > 0 {
			inherited[b.Size]--
			crosses[int32(i)] = true
		}
	}
	return crosses
}

// outlives reports whether the block is still live at the end of s.
func (s *Step) outlives(b Block) bool {
	return !b.Pinned && b.Size > 0 && int(b.Free) >= len(s.Ops)
}
