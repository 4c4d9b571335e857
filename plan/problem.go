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
	ids    []int32 // by box: the buffer it stands for
	lo, hi []int32
	size   []int64
	until  []int32 // by fixed block
	ticks  int32
	load   []int64 // by tick, of the boxes
	bound  int64   // the largest load
	floor  []int64 // by tick, of the gap that is being filled; nil if flat
}

func newProblem(b []Buffer, fixed []Fixed) *problem {
	p := &problem{}
	var begin mem.Tick
	for i, x := range b {
		if x.empty() {
			continue
		}
		if len(p.ids) == 0 || x.Lower < begin {
			begin = x.Lower
		}
		p.ids = append(p.ids, int32(i))
		p.size = append(p.size, int64(x.Size))
	}
	p.compress(b, fixed, begin)
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

// compress numbers the ticks that matter, from begin on, where all that is fixed is there.
func (p *problem) compress(b []Buffer, fixed []Fixed, begin mem.Tick) {
	type edge struct {
		at    mem.Tick
		which int32 // a box or, behind them, a fixed block
		start int8  // ends sort first: lives are half open
	}
	n := len(p.ids)
	edges := make([]edge, 0, 2*(n+len(fixed)))
	for k, id := range p.ids {
		edges = append(edges, edge{b[id].Lower, int32(k), 1}, edge{b[id].Upper, int32(k), 0})
	}
	for k, f := range fixed {
		if f.Until > begin {
			edges = append(edges, edge{f.Until, int32(n + k), 0})
		}
	}
	slices.SortFunc(edges, func(x, y edge) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.start, y.start))
	})
	p.lo, p.hi, p.until = make([]int32, n), make([]int32, n), make([]int32, len(fixed))
	ended := true
	for _, e := range edges {
		switch {
		case e.start == 1:
			if ended {
				p.ticks++
				ended = false
			}
			p.lo[e.which] = p.ticks - 1
			continue
		case int(e.which) < n:
			p.hi[e.which] = p.ticks
		default:
			p.until[int(e.which)-n] = p.ticks
		}
		ended = true
	}
}

func (p *problem) floorAt(t int32) int64 {
	if p.floor == nil {
		return 0
	}
	return p.floor[t]
}
