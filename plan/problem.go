package plan

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

func (b Buffer) empty() bool { return b.Lower >= b.Upper || b.Size <= 0 }

// Fixed is memory that buffers must keep away from: a block that lies at [From, To)
// until a tick, from before the first buffer on.
type Fixed struct {
	From, To mem.Offset
	Until    mem.Tick
}

// Solution is a placement of every buffer of a problem.
type Solution struct {
	Offsets  []mem.Offset // by buffer
	Makespan mem.Bytes    // end of the highest buffer
}

// LowerBound returns the peak load of b: the largest sum of sizes live at one
// tick.
func LowerBound(b []Buffer) mem.Bytes {
	return mem.Bytes(newProblem(b, nil).bound)
}

// problem is buffers, here called boxes, on compressed time. Only the order of starts and
// ends matters: a run of starts followed by a run of ends is one tick. At each such tick
// the live boxes form a maximal clique, and every load that could be a peak is the load of
// one.
type problem struct {
	ids    []int32 // by box, in the order of their starts: the buffer it stands for
	lo, hi []int32
	size   []int64
	until  []int32 // by fixed block
	ticks  int32
	load   []int64 // by tick, of the boxes
	bound  int64   // the largest load
	floor  []int64 // by tick, of the gap that is being filled; nil if flat
}

func newProblem(b []Buffer, fixed []Fixed) *problem {
	p := &problem{ids: make([]int32, 0, len(b))}
	for i, x := range b {
		if !x.empty() {
			p.ids = append(p.ids, int32(i))
		}
	}
	slices.SortFunc(p.ids, func(x, y int32) int { return cmp.Or(cmp.Compare(b[x].Lower, b[y].Lower), cmp.Compare(x, y)) })
	p.compress(b, fixed)
	p.size = make([]int64, len(p.ids))
	for k, id := range p.ids {
		p.size[k] = int64(b[id].Size)
	}
	p.load = make([]int64, p.ticks+1)
	for k, size := range p.size {
		p.load[p.lo[k]] += size
		p.load[p.hi[k]] -= size
	}
	for t := range p.ticks {
		if t > 0 {
			p.load[t] += p.load[t-1]
		}
		p.bound = max(p.bound, p.load[t])
	}
	p.load = p.load[:p.ticks]
	return p
}

// compress numbers the ticks that matter, from the first start on, where all that is fixed is
// there. A run of starts ends before one that comes with an end or behind it.
func (p *problem) compress(b []Buffer, fixed []Fixed) {
	n := len(p.ids)
	starts := make([]mem.Tick, n)
	for k, id := range p.ids {
		starts[k] = b[id].Lower
	}
	p.lo, p.hi, p.until = make([]int32, n), make([]int32, n), make([]int32, len(fixed))
	ends := make([]bool, n+1) // in front of a start
	before := func(from int, end mem.Tick) int32 {
		i, _ := slices.BinarySearch(starts[from:], end)
		ends[from+i] = true
		return int32(from + i)
	}
	for k, id := range p.ids {
		p.hi[k] = before(k, b[id].Upper)
	}
	for i, f := range fixed {
		p.until[i] = before(0, f.Until)
	}
	tick := make([]int32, n+1) // behind so many starts
	for k := range n {
		if k == 0 || ends[k] {
			p.ticks++
		}
		p.lo[k] = p.ticks - 1
		tick[k+1] = p.ticks
	}
	for k := range p.hi {
		p.hi[k] = tick[p.hi[k]]
	}
	for i := range p.until {
		p.until[i] = tick[p.until[i]]
	}
}
