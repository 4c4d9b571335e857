package plan

// exact decides whether a piece fits a capacity, by trying every placement that
// cannot be ruled out, within a budget of nodes.
//
// A placement is built on the skyline: some segment that both neighbours
// overtop gets its leftmost box, or none, and what is left free beside or
// without it is raised and lost. Since whatever a box does to one such segment
// does not touch the others, the order among them is free, and the tightest one
// is taken first: failures show early. Ruled out are
//
//   - waste: a tick whose height and unplaced load together pass the capacity;
//   - useless gaps: what is lost could have held an unplaced box;
//   - twins: of boxes alike in life and size, one stands for all.
//
// Where no unplaced box connects two parts of the time axis, they are solved one
// by one, and a failure of one is not blamed on the other. (Pruning after Moffitt
// and others, MiniMalloc, ASPLOS 2023; the choice by local minimum is ours.)
type exact struct {
	p        *piece
	capacity int64
	budget   int // nodes left
	off      rule

	height, load []int64 // by tick; load of the unplaced boxes
	cross        []int32 // by tick, unplaced boxes live at it and the tick before
	placed       []bool
	offset       []int64
	order        []int32 // boxes by rank
	twin         []int32 // by box, the first box like it
	log          []change
	saved        []int64 // heights that the changes overwrote
	stack        []int32 // choices of the nodes on the path
}

// rule names what rules out placements; a test turns each off to see that it
// saves nodes and changes no answer.
type rule uint8

const (
	ruleGaps rule = 1 << iota
	ruleTwins
)

// change is one step to undo: a box was placed, or ticks were raised.
type change struct {
	box    int32 // or none
	lo, hi int32 // ticks whose heights are the last ones saved
}

func newExact(p *piece) *exact {
	n := len(p.ids)
	e := &exact{
		p: p, height: make([]int64, p.ticks), load: make([]int64, p.ticks), cross: make([]int32, p.ticks),
		placed: make([]bool, n), offset: make([]int64, n), twin: make([]int32, n),
	}
	type shape struct {
		lo, hi int32
		size   int64
	}
	first := map[shape]int32{}
	for i := range int32(n) {
		s := shape{p.lo[i], p.hi[i], p.size[i]}
		if _, ok := first[s]; !ok {
			first[s] = i
		}
		e.twin[i] = first[s]
	}
	return e
}

// run reports whether it placed everything within capacity. False means that it
// is impossible, if any of the budget is left.
func (e *exact) run(order []int32, capacity int64, budget int) bool {
	e.order, e.capacity, e.budget = order, capacity, budget
	e.log, e.saved, e.stack = e.log[:0], e.saved[:0], e.stack[:0]
	clear(e.cross)
	clear(e.placed)
	copy(e.load, e.p.load)
	for t := range e.height {
		e.height[t] = e.p.floorAt(int32(t))
	}
	for i := range e.p.ids {
		for t := e.p.lo[i] + 1; t < e.p.hi[i]; t++ {
			e.cross[t]++
		}
	}
	return capacity >= e.p.bound && e.solve(0, e.p.ticks)
}

func (e *exact) save(box, lo, hi int32) {
	e.log = append(e.log, change{box, lo, hi})
	e.saved = append(e.saved, e.height[lo:hi]...)
}

func (e *exact) place(box int32, height int64) {
	lo, hi, size := e.p.lo[box], e.p.hi[box], e.p.size[box]
	e.save(box, lo, hi)
	e.placed[box], e.offset[box] = true, height
	for t := lo; t < hi; t++ {
		e.height[t] = height + size
		e.load[t] -= size
		if t > lo {
			e.cross[t]--
		}
	}
}

// raise lifts [lo, hi) to height, and reports whether the boxes still to come
// fit above it.
func (e *exact) raise(lo, hi int32, height int64) bool {
	if lo == hi {
		return true
	}
	e.save(none, lo, hi)
	for t := lo; t < hi; t++ {
		e.height[t] = height
		if e.load[t] > 0 && height+e.load[t] > e.capacity {
			return false
		}
	}
	return true
}

// rewind undoes every change since the log had mark entries.
func (e *exact) rewind(mark int) {
	for len(e.log) > mark {
		c := e.log[len(e.log)-1]
		e.log = e.log[:len(e.log)-1]
		n := len(e.saved) - int(c.hi-c.lo)
		copy(e.height[c.lo:c.hi], e.saved[n:])
		e.saved = e.saved[:n]
		if c.box == none {
			continue
		}
		e.placed[c.box] = false
		for t := c.lo; t < c.hi; t++ {
			e.load[t] += e.p.size[c.box]
			if t > c.lo {
				e.cross[t]++
			}
		}
	}
}
