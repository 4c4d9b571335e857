package plan

import "stalloc/internal/mem"

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
}

// Step is what was observed on one stream between two step boundaries.
type Step struct {
	Ops    []Op
	Blocks []Block
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
