package descent

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
)

// Buffer is one block of a planning problem: Size bytes that must stay at one
// offset during [Lower, Upper). A buffer with an empty life or no size takes
// no memory and may lie anywhere.
type Buffer struct {
	Lower, Upper mem.Tick
	Size         mem.Bytes
}

// Empty reports whether the buffer takes no memory.
func (b Buffer) Empty() bool { return b.Lower >= b.Upper || b.Size <= 0 }

// Gap is free memory, for as long as any buffer lives.
type Gap struct {
	From mem.Offset
	Size mem.Bytes
}

// Solution is a placement of every buffer of a problem.
type Solution struct {
	Offsets  []mem.Offset // by buffer
	Makespan mem.Bytes    // end of the highest buffer
}

// LowerBound returns the peak load of b: the largest sum of sizes live at one
// tick.
func LowerBound(b []Buffer) mem.Bytes {
	return mem.Bytes(Compress(b).Bound)
}

// Boxes is buffers, here called boxes, on compressed time. Only the order of starts and
// ends matters: a run of starts followed by a run of ends is one tick. At each such tick
// the live boxes form a maximal clique, and every load that could be a peak is the load of
// one.
type Boxes struct {
	IDs    []int32 // by box, in the order of their starts: the buffer it stands for
	Lo, Hi []int32 // it lives in the ticks [Lo, Hi)
	Size   []int64 // bytes
	Ticks  int32
	Load   []int64 // by tick, of the boxes
	Bound  int64   // the largest load
}

// Compress returns the buffers that take memory as boxes.
func Compress(b []Buffer) *Boxes {
	p := &Boxes{IDs: make([]int32, 0, len(b))}
	for i, x := range b {
		if !x.Empty() {
			p.IDs = append(p.IDs, int32(i))
		}
	}
	slices.SortFunc(p.IDs, func(x, y int32) int {
		return cmp.Or(cmp.Compare(b[x].Lower, b[y].Lower),
			cmp.Compare(x, y))
	})
	p.compress(b)
	p.Size = make([]int64, len(p.IDs))
	for k, id := range p.IDs {
		p.Size[k] = int64(b[id].Size)
	}
	p.Load = make([]int64, p.Ticks+1)
	for k, size := range p.Size {
		p.Load[p.Lo[k]] += size
		p.Load[p.Hi[k]] -= size
	}
	for t := range p.Ticks {
		if t > 0 {
			p.Load[t] += p.Load[t-1]
		}
		p.Bound = max(p.Bound, p.Load[t])
	}
	p.Load = p.Load[:p.Ticks]
	return p
}

// compress numbers the ticks that matter. A run of starts ends before one that comes with an end
// or behind it.
func (p *Boxes) compress(b []Buffer) {
	n := len(p.IDs)
	starts := make([]mem.Tick, n)
	for k, id := range p.IDs {
		starts[k] = b[id].Lower
	}
	p.Lo, p.Hi = make([]int32, n), make([]int32, n)
	ends := make([]bool, n+1) // in front of a start
	for k, id := range p.IDs {
		i, _ := slices.BinarySearch(starts[k:], b[id].Upper)
		p.Hi[k] = int32(k + i)
		ends[k+i] = true
	}
	tick := make([]int32, n+1) // behind so many starts
	for k := range n {
		if k == 0 || ends[k] {
			p.Ticks++
		}
		p.Lo[k] = p.Ticks - 1
		tick[k+1] = p.Ticks
	}
	for k := range p.Hi {
		p.Hi[k] = tick[p.Hi[k]]
	}
}
