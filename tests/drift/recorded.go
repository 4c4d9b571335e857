package drift

import (
	"fmt"
	"strings"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// Recorded repeats the second step of a recorded run, as it was or changed.
type Recorded struct {
	// Scale changes the sizes of the large blocks that live within a step, as
	// another batch size does. Zero leaves them as they were.
	Scale float64

	start, step, forward []trace.Event
	inner                map[int64]bool  // blocks that begin and end within the step
	twins                map[int64]int64 // what the step inherits → what it leaves in its place
	blocks               map[int64]Block
}

// ReadRecorded reads a run on one stream whose steps are marked, with a mark
// where the backward pass of each begins.
func ReadRecorded(path string) (*Recorded, error) {
	tr, err := trace.ReadFile(path)
	if err != nil {
		return nil, err
	}
	steps := tr.Steps()
	if len(steps) < 2 {
		return nil, fmt.Errorf("%s has %d steps, expected two or more", path, len(steps))
	}
	r := &Recorded{
		start:  tr.Events[:steps[0][1]],
		step:   tr.Events[steps[1][0]:steps[1][1]],
		inner:  make(map[int64]bool),
		twins:  make(map[int64]int64),
		blocks: make(map[int64]Block),
	}
	for i, e := range r.step {
		if e.Kind == trace.Mark && strings.HasPrefix(e.Mark, "backward") {
			r.forward = r.step[:i]
		}
	}
	if r.forward == nil {
		return nil, fmt.Errorf("%s has no mark \"backward\"", path)
	}
	r.match(tr.Events)
	return r, nil
}

// match finds out which block that the step leaves live is the next one's
// counterpart of a block that it inherits and frees.
func (r *Recorded) match(all []trace.Event) {
	size := make(map[int64]mem.Bytes)
	for _, e := range all {
		if e.Kind == trace.Alloc {
			size[e.ID] = e.Size
		}
	}
	left := make(map[mem.Bytes][]int64) // by size, in order
	var inherited []int64
	freed := make(map[int64]bool)
	for _, e := range r.step {
		if e.Kind == trace.FreeCompleted {
			freed[e.ID] = true
		}
	}
	for _, e := range r.step {
		if e.Kind != trace.Alloc {
			continue
		}
		if r.inner[e.ID] = freed[e.ID]; !freed[e.ID] {
			left[e.Size] = append(left[e.Size], e.ID)
		}
	}
	for _, e := range r.step {
		if _, own := r.inner[e.ID]; e.Kind == trace.FreeCompleted && !own {
			inherited = append(inherited, e.ID)
		}
	}
	for _, id := range inherited {
		if same := left[size[id]]; len(same) > 0 {
			r.twins[id], left[size[id]] = same[0], same[1:]
		}
	}
}

func (r *Recorded) play(p *Program, events []trace.Event) {
	for _, e := range events {
		switch e.Kind {
		case trace.Alloc:
			size := e.Size
			if r.Scale != 0 && r.inner[e.ID] && size >= mem.MiB {
				size = mem.Bytes(float64(size) * r.Scale)
			}
			r.blocks[e.ID] = p.Alloc(size)
		case trace.FreeCompleted:
			if b, ok := r.blocks[e.ID]; ok {
				p.Free(b)
				delete(r.blocks, e.ID)
			}
		case trace.Mark:
			if strings.HasPrefix(e.Mark, "step ") {
				p.Step() // the one that ends set-up
			}
		}
	}
}

// Start is set-up and the first step, which is followed by a boundary.
func (r *Recorded) Start(p *Program) { r.play(p, r.start) }

// Train is a step without its boundary.
func (r *Recorded) Train(p *Program) {
	r.play(p, r.step)
	for old, fresh := range r.twins {
		if b, ok := r.blocks[fresh]; ok {
			r.blocks[old] = b
			delete(r.blocks, fresh)
		}
	}
	// What the step makes anew each time without an end would pile up.
	for id := range r.inner {
		if b, ok := r.blocks[id]; ok {
			p.Free(b)
			delete(r.blocks, id)
		}
	}
}

// Evaluate is the step's forward pass, whose blocks all end with it.
func (r *Recorded) Evaluate(p *Program) {
	for _, e := range r.forward {
		if e.Kind == trace.Alloc {
			r.blocks[e.ID] = p.Alloc(e.Size)
		} else if b, ok := r.blocks[e.ID]; ok && e.Kind == trace.FreeCompleted {
			if _, own := r.inner[e.ID]; own {
				p.Free(b)
				delete(r.blocks, e.ID)
			}
		}
	}
	for id := range r.inner {
		if b, ok := r.blocks[id]; ok {
			p.Free(b)
			delete(r.blocks, id)
		}
	}
}

// Unload gives everything back.
func (r *Recorded) Unload(p *Program) {
	for _, b := range r.blocks {
		p.Free(b)
	}
	clear(r.blocks)
}
