package plan

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
)

// Recorder turns the events of one stream into steps. The zero value is ready.
// It allocates only when a step grows beyond the largest seen so far.
//
// Events may be lost on the way (what is kept of a step is bounded, see Gap), so no sequence of
// calls is an error: what does not fit is counted.
type Recorder struct {
	// Unknown counts frees of identifiers that were not live, Replaced counts
	// allocations under an identifier that was: its free was lost.
	Unknown, Replaced int

	step Step
	ids  []uint64         // identifier of each block of the step
	live map[uint64]int32 // live identifiers, to the block's index in the step
	// Behind a gap: the blocks that may have been freed in it, by address.
	doubt []doubted
}

// doubted is a block that may have been freed unseen.
type doubted struct{ from, to uint64 }

// unfinished stands in Block.Free while the block is live.
const unfinished int32 = -1

// Alloc records that the block id of size bytes, as asked for or rounded, was
// handed out. An id is the block's address or its number in a trace; it may
// come again once freed.
func (r *Recorder) Alloc(id uint64, size mem.Bytes) {
	if r.live == nil {
		r.live = make(map[uint64]int32)
	}
	if r.doubt != nil {
		r.cover(id, id+uint64(mem.Round(size)))
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

// Gap says that events are missing here, between two steps. The identifiers are
// addresses: what was freed unseen is known by its memory being handed out again in the
// step to come, and what is live behind that is taken to have been all along.
func (r *Recorder) Gap() {
	r.doubt = make([]doubted, 0, len(r.live))
	for id, block := range r.live {
		r.doubt = append(r.doubt, doubted{id, id + uint64(r.step.Blocks[block].Size)})
	}
	slices.SortFunc(r.doubt, func(a, b doubted) int { return cmp.Compare(a.from, b.from) })
}

// cover ends the blocks in doubt that share memory with one that is handed out.
func (r *Recorder) cover(from, to uint64) {
	at, _ := slices.BinarySearchFunc(r.doubt, from, func(d doubted, from uint64) int { return cmp.Compare(d.to, from+1) })
	for ; at < len(r.doubt) && r.doubt[at].from < to; at++ {
		if block, ok := r.live[r.doubt[at].from]; ok && r.step.Blocks[block].Alloc < 0 {
			r.Replaced++
			delete(r.live, r.doubt[at].from)
			r.end(block)
		}
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
	r.doubt = nil
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
