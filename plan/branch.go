package plan

import (
	"math"
	"slices"
)

// solve places all boxes that live within [lo, hi), which no unplaced box
// crosses the ends of, part by part. If it fails, nothing has changed.
func (e *exact) solve(lo, hi int32) bool {
	mark := len(e.log)
	for t := lo; t < hi; {
		from := t
		for t++; t < hi && e.cross[t] > 0; t++ {
		}
		if e.load[from] > 0 && !e.branch(from, t) {
			e.rewind(mark)
			return false
		}
	}
	return true
}

// branch tries every way to go on at the tightest segment of [lo, hi), which
// unplaced boxes connect.
func (e *exact) branch(lo, hi int32) bool {
	if e.budget <= 0 {
		return false
	}
	e.budget--
	s := e.tightest(lo, hi)
	mark := len(e.log)
	bottom := len(e.stack)
	defer func() { e.stack = e.stack[:bottom] }()
	fits := e.fitting(s)
	for i, box := range fits {
		gapTop := min(s.left, s.height+e.p.size[box])
		if e.twinAmong(fits[:i], box) || e.useless(fits, e.p.lo[box], gapTop-s.height) {
			continue
		}
		if e.raise(s.lo, e.p.lo[box], gapTop) {
			e.place(box, s.height)
			if e.solve(lo, hi) {
				return true
			}
		}
		e.rewind(mark)
	}
	lift := min(s.left, s.right)
	if lift == wall || e.useless(fits, s.hi, lift-s.height) {
		return false
	}
	if e.raise(s.lo, s.hi, lift) && e.solve(lo, hi) {
		return true
	}
	e.rewind(mark)
	return false
}

// wall is the height beyond the ends of a part: nothing there holds a box.
const wall int64 = math.MaxInt64

// valley is a segment that both neighbours overtop.
type valley struct {
	lo, hi              int32
	height, left, right int64
}

// tightest returns the valley of [lo, hi) with the least room at any tick.
func (e *exact) tightest(lo, hi int32) valley {
	var best valley
	least := int64(math.MaxInt64)
	left := wall
	for t := lo; t < hi; {
		s := valley{lo: t, height: e.height[t], left: left, right: wall}
		room := int64(math.MaxInt64)
		for ; t < hi && e.height[t] == s.height; t++ {
			room = min(room, e.capacity-s.height-e.load[t])
		}
		s.hi = t
		if t < hi {
			s.right = e.height[t]
		}
		if s.height < s.left && s.height < s.right && room < least {
			best, least = s, room
		}
		left = s.height
	}
	return best
}

// fitting returns the unplaced boxes that live within s, by rank.
func (e *exact) fitting(s valley) []int32 {
	bottom := len(e.stack)
	for _, box := range e.order {
		if !e.placed[box] && e.p.lo[box] >= s.lo && e.p.hi[box] <= s.hi {
			e.stack = append(e.stack, box)
		}
	}
	return e.stack[bottom:len(e.stack):len(e.stack)]
}

func (e *exact) twinAmong(boxes []int32, box int32) bool {
	return e.off&ruleTwins == 0 && slices.ContainsFunc(boxes, func(b int32) bool { return e.twin[b] == e.twin[box] })
}

// useless reports whether a gap of the given depth that ends at hi could hold
// one of fits.
func (e *exact) useless(fits []int32, hi int32, depth int64) bool {
	if e.off&ruleGaps != 0 {
		return false
	}
	for _, box := range fits {
		if e.p.hi[box] <= hi && e.p.size[box] <= depth {
			return true
		}
	}
	return false
}
