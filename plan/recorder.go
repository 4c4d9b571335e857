package plan

import "stalloc/internal/mem"

// Recorder turns the events of one stream into steps. The zero value is ready.
// It allocates only when a step grows beyond the largest seen so far.
//
// Events may be lost on the way (the rings are bounded), so no sequence of
// calls is an error: what does not fit is counted.
type Recorder struct {
	// Unknown counts frees of identifiers that were not live, Replaced counts
	// allocations under an identifier that was: its free was lost.
	Unknown, Replaced int

	step Step
	ids  []uint64         // identifier of each block of the step
	live map[uint64]int32 // live identifiers, to the block's index in the step
}

// unfinished stands in Block.Free while the block is live.
const unfinished int32 = -1

// Alloc records that the block id of size bytes, as asked for or rounded, was
// handed out. An id is the block's address or its number in a trace; it may
// come again once freed.
func (r *Recorder) Alloc(id uint64, size mem.Bytes) {
	if r.live == nil {
		r.live = make(map[uint64]int32)
	}
	if old, ok := r.live[id]; ok {
		r.Replaced++
		r.end(old)
	}
	block := int32(len(r.step.Blocks))
	r.live[id] = block
	r.ids = append(r.ids, id)
	r.step.Blocks = append(r.step.Blocks, Block{Size: mem.Round(size), Alloc: int32(len(r.step.Ops)), Free: unfinished})
	r.step.Ops = append(r.step.Ops, Op{Block: block})
}

// Free records that the block id was freed. An unknown id is counted and
// otherwise ignored.
func (r *Recorder) Free(id uint64) {
	block, ok := r.live[id]
	if !ok {
		r.Unknown++
		return
	}
	delete(r.live, id)
	r.end(block)
}

// Exclude leaves the block id out of planning, from its allocation on: its free
// waits for another stream (record_stream), so its end cannot be foreseen.
func (r *Recorder) Exclude(id uint64) {
	if block, ok := r.live[id]; ok {
		r.step.Blocks[block].Pinned = true
	}
}

// Miss notes that the block id was handed out beside the plan.
func (r *Recorder) Miss(id uint64) {
	if block, ok := r.live[id]; ok {
		r.step.Blocks[block].Missed = true
	}
}

// Live returns how many blocks are live now.
func (r *Recorder) Live() int { return len(r.live) }

func (r *Recorder) end(block int32) {
	r.step.Blocks[block].Free = int32(len(r.step.Ops))
	r.step.Ops = append(r.step.Ops, Op{Block: block, Free: true})
}

// Boundary closes the step and returns it. The blocks still live are carried
// into the next step in the order of their allocation.
func (r *Recorder) Boundary() *Step {
	closed := r.step
	ids := r.ids
	r.step = Step{
		Ops:    make([]Op, 0, len(closed.Ops)),
		Blocks: make([]Block, 0, len(closed.Blocks)),
	}
	r.ids = make([]uint64, 0, len(ids))
	for i := range closed.Blocks {
		block := &closed.Blocks[i]
		if block.Free != unfinished {
			continue
		}
		r.live[ids[i]] = int32(len(r.step.Blocks))
		r.ids = append(r.ids, ids[i])
		r.step.Blocks = append(r.step.Blocks, Block{Size: block.Size, Alloc: -1, Free: unfinished, Pinned: block.Pinned, Missed: block.Missed})
		block.Free = int32(len(closed.Ops))
	}
	return &closed
}
