package residency

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
)

// chooser finds a choice that needs no wait.
type chooser struct {
	*grid
	chosen   []bool
	useless  []bool  // cannot be out and back in time
	credited []bool  // chosen in this round
	out      []Nanos // by part, when its copy out ends
	back     []Nanos // by part, when its copy back begins at the latest
	ready    []int32 // parts by the time at which each could be out if it were alone
	lone     []int32 // parts by the time at which each would have to come back if it were alone
	first    []int32 // parts in the order in which they are chosen
	rank     []int32 // by part, its place in that
	heap     ranks
	steps    int // left
}

// budget is how many events choosing and taking back may look at.
const budget = 1 << 22

func newChooser(g *grid) *chooser {
	n := len(g.parts)
	c := &chooser{grid: g, chosen: make([]bool, n), useless: make([]bool, n), out: make([]Nanos, n),
		back: make([]Nanos, n), credited: make([]bool, n), rank: make([]int32, n)}
	c.ready, c.lone = slices.Clone(g.leave), slices.Clone(g.leave)
	slices.SortStableFunc(c.ready, func(i, j int32) int {
		return cmp.Compare(c.parts[i].idle+c.parts[i].out, c.parts[j].idle+c.parts[j].out)
	})
	slices.SortStableFunc(c.lone, func(i, j int32) int {
		return cmp.Compare(c.parts[i].need-c.parts[i].back, c.parts[j].need-c.parts[j].back)
	})
	return c
}

// orders are by what a part is preferred: it is needed late, is large, is small, is idle for long.
var orders = [...]func(a, b *part) int{
	func(a, b *part) int { return cmp.Compare(b.need, a.need) },
	func(a, b *part) int { return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(b.need, a.need)) },
	func(a, b *part) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(b.need, a.need)) },
	func(a, b *part) int { return cmp.Compare(b.need-b.idle, a.need-a.idle) },
}

// choose adds parts until the limit is kept without a wait. False: it found no such choice.
func (c *chooser) choose(prefer func(a, b *part) int) bool {
	clear(c.chosen)
	clear(c.useless)
	c.first = append(c.first[:0], c.leave...)
	slices.SortStableFunc(c.first, func(i, j int32) int {
		return prefer(&c.parts[i], &c.parts[j])
	})
	for r, i := range c.first {
		c.rank[i] = int32(r)
	}
	for c.steps = budget; c.steps > 0; {
		for !c.latest() {
			c.drop()
		}
		added, ok := c.round(false)
		if !ok {
			return false
		}
		if !added {
			return true
		}
	}
	return false
}

// latest gives each chosen part its times without waits: out as soon as it can, back as late as it
// can. False: some would have to be back before they are out.
func (c *chooser) latest() bool {
	free := -mostTime
	for _, i := range c.leave {
		if c.chosen[i] {
			free = max(free, c.parts[i].idle) + c.parts[i].out
			c.out[i] = free
		}
	}
	free = 2 * mostTime
	ok := true
	for _, i := range slices.Backward(c.come) {
		if c.chosen[i] {
			free = min(free, c.parts[i].need) - c.parts[i].back
			c.back[i] = free
			ok = ok && free >= c.out[i]
		}
	}
	c.steps -= len(c.parts)
	return ok
}

// drop takes those back that would have to be back before they are out.
func (c *chooser) drop() {
	for i := range c.parts {
		if c.chosen[i] && c.back[i] < c.out[i] {
			c.chosen[i], c.useless[i] = false, true
		}
	}
}

// keeps reports whether the choice keeps the limit without a wait.
func (c *chooser) keeps() bool {
	if !c.latest() {
		return false
	}
	_, ok := c.round(true)
	return ok
}

// What happens to a load at a time, in this order.
const (
	isOut   = iota // a chosen part's memory is free
	isReady        // a part could be out
	moment         // the load of everything changes
	isBack         // a chosen part's memory is taken again
	isLone         // a part that was chosen in this round would have to come back
	events
)

// round goes through time with the times of the choice so far. Where the load is too high, it
// chooses parts that could be away by then, as if each were alone on the link. False: none can,
// or the choice is closed.
func (c *chooser) round(closed bool) (added, ok bool) {
	clear(c.credited)
	c.heap = c.heap[:0]
	away, total := mem.Bytes(0), mem.Bytes(0)
	var next [events]int
	if closed {
		next[isReady], next[isLone] = len(c.ready), len(c.lone)
	}
	for {
		e, at := c.earliest(&next)
		if e < 0 {
			return added, true
		}
		c.steps--
		n := next[e]
		next[e]++
		switch e {
		case isOut:
			away += c.parts[c.leave[n]].size
			continue
		case isReady:
			if i := c.ready[n]; !c.chosen[i] && !c.useless[i] {
				c.heap.push(c.rank[i])
			}
			continue
		case moment:
			total = c.total[n]
		case isBack:
			away -= c.parts[c.come[n]].size
		case isLone:
			i := c.lone[n]
			if !c.credited[i] {
				continue
			}
			away -= c.parts[i].size
		}
		for total-away > c.limit {
			i := c.pick(at)
			if i < 0 {
				return added, false
			}
			c.credited[i], c.chosen[i], added = true, true, true
			away += c.parts[i].size
		}
	}
}

// pick returns the preferred part that can be away at a time, or -1.
func (c *chooser) pick(at Nanos) int32 {
	for len(c.heap) > 0 {
		if i := c.first[c.heap.pop()]; c.parts[i].need-c.parts[i].back > at {
			return i
		}
	}
	return -1
}

// earliest returns the next event of the five sequences, and its time; -1: none is left.
func (c *chooser) earliest(next *[events]int) (event int, at Nanos) {
	event, at = -1, 4*mostTime
	settled := func(i int32) bool { return c.chosen[i] && !c.credited[i] }
	for next[isOut] < len(c.leave) && !settled(c.leave[next[isOut]]) {
		next[isOut]++
	}
	for next[isBack] < len(c.come) && !settled(c.come[next[isBack]]) {
		next[isBack]++
	}
	if n := next[isOut]; n < len(c.leave) {
		event, at = isOut, c.out[c.leave[n]]
	}
	if n := next[isReady]; n < len(c.ready) {
		if t := c.parts[c.ready[n]].idle + c.parts[c.ready[n]].out; t < at {
			event, at = isReady, t
		}
	}
	if n := next[moment]; n < len(c.times) && c.times[n] < at {
		event, at = moment, c.times[n]
	}
	if n := next[isBack]; n < len(c.come) && c.back[c.come[n]] < at {
		event, at = isBack, c.back[c.come[n]]
	}
	if n := next[isLone]; n < len(c.lone) {
		if t := c.parts[c.lone[n]].need - c.parts[c.lone[n]].back; t < at {
			event, at = isLone, t
		}
	}
	return event, at
}
