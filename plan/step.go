package plan

import "stalloc/internal/mem"

// Op is one event of an observed step: the allocation or the free of a block.
type Op struct {
	Block int32 // indexes Step.Blocks
	Free  bool
}

// Block is one block seen during a step.
type Block struct {
	Size mem.Bytes // rounded; 0: excluded from planning, see Recorder.Exclude
	// Alloc and Free are places in Step.Ops. Alloc is -1 if the block was live
	// before the step, Free is len(Step.Ops) if it outlives the step.
	Alloc, Free int32
}

// Step is what was observed on one stream between two step boundaries.
type Step struct {
	Ops    []Op
	Blocks []Block
}

// transient reports whether the block begins and ends within s.
func (s *Step) transient(b Block) bool {
	return b.Size > 0 && b.Alloc >= 0 && int(b.Free) < len(s.Ops)
}

// outlives reports whether the block is still live at the end of s.
func (s *Step) outlives(b Block) bool {
	return b.Size > 0 && int(b.Free) >= len(s.Ops)
}
