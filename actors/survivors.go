package actors

import (
	"stalloc/internal/mem"
	"stalloc/plan"
)

// origin names a block of one of the first segments.
type origin struct{ segment, block int32 }

// survivors are the blocks of the first segments that are live now, on one stream,
// in the order of their allocation: the order in which every step lists what it
// inherited.
type survivors []origin

// after takes in a step. If it is one of the first segments, of the number given,
// its own blocks that outlive it are among the survivors; -1: it is none.
func (s survivors) after(step *plan.Step, segment int) survivors {
	left, inherited := s[:0], 0
	for i := range step.Blocks {
		b := &step.Blocks[i]
		outlives := int(b.Free) == len(step.Ops)
		switch {
		case b.Alloc < 0 && inherited < len(s):
			if outlives {
				left = append(left, s[inherited])
			}
			inherited++
		case b.Alloc >= 0 && segment >= 0 && outlives:
			left = append(left, origin{int32(segment), int32(i)})
		}
	}
	return left
}

// marked returns a copy of the first segments in which those blocks pass that
// outlived their segment and are not among the survivors: gradients that the next
// step replaces, buffers that a library lets go of after the first step.
func marked(segments [][]*plan.Step, left []survivors) [][]*plan.Step {
	out := make([][]*plan.Step, len(segments))
	for k, steps := range segments {
		out[k] = make([]*plan.Step, len(steps))
		for ordinal, s := range steps {
			if s == nil {
				continue
			}
			lives := make([]bool, len(s.Blocks))
			if ordinal < len(left) {
				for _, o := range left[ordinal] {
					if int(o.segment) == k {
						lives[o.block] = true
					}
				}
			}
			copied := &plan.Step{Ops: s.Ops, Blocks: append([]plan.Block(nil), s.Blocks...)}
			for i := range copied.Blocks {
				b := &copied.Blocks[i]
				b.Passes = b.Alloc >= 0 && int(b.Free) == len(s.Ops) && !lives[i]
			}
			out[k][ordinal] = copied
		}
	}
	return out
}

// bytes returns how much memory the survivors are.
func (b *beginning) bytes() (n mem.Bytes) {
	for ordinal, left := range b.left {
		for _, o := range left {
			n += b.segments[o.segment][ordinal].Blocks[o.block].Size
		}
	}
	return n
}

// leftBy counts the survivors of one segment.
func (b *beginning) leftBy(segment int) (n int64) {
	for _, left := range b.left {
		for _, o := range left {
			if int(o.segment) == segment {
				n++
			}
		}
	}
	return n
}
