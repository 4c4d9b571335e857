package residency

import (
	"cmp"
	"slices"
)

// chooser finds a choice that needs no wait.
type chooser struct {
	*grid
	chosen   []bool
	useless  []bool  // cannot be out and back in time
	credited []bool  // chosen in this round
	out      []Nanos // by part, when its copy out ends
	back     []Nanos // by part, when its copy back begins at the latest
	readyAt  []Nanos // by part, when it could be out if it were alone
	loneAt   []Nanos // by part, when it would have to come back if it were alone
	ready    []int32 // parts by readyAt
	lone     []int32 // parts by loneAt
	first    []int32 // parts in the order in which they are chosen
	rank     []int32 // by part, its place in that
	heap     ranks
	front    [events]front
	stalls   bool // copies take no time, but for moments: the program waits for them
	steps    int  // left
}

// front is the next event of a sequence.
type front struct {
	n  int
	at Nanos
}

const (
	choosing = 1 << 21 // so many events choosing may look at,
	pruning  = 1 << 19 // and so many taking back
)

func newChooser(g *grid) *chooser {
	n := len(g.parts)
	c := &chooser{grid: g, chosen: make([]bool, n), useless: make([]bool, n), out: make([]Nanos, n),
		back: make([]Nanos, n), credited: make([]bool, n), rank: make([]int32, n),
		readyAt: make([]Nanos, n), loneAt: make([]Nanos, n)}
	c.wait(false)
	return c
}

// wait sets whether the program waits for copies. If so, a part can be away at all moments between
// those at which it is idle and needed, but for the first and the last.
func (c *chooser) wait(stalls bool) {
	c.stalls = stalls
	for i := range c.parts {
		x := &c.parts[i]
		c.readyAt[i], c.loneAt[i] = x.idle+x.out, x.need-x.back
		if stalls {
			c.readyAt[i], c.loneAt[i] = c.times[x.from+1], c.times[x.until-1]
		}
	}
	c.ready, c.lone = slices.Clone(c.leave), slices.Clone(c.come)
	slices.SortStableFunc(c.ready, func(i, j int32) int {
		return cmp.Compare(c.readyAt[i], c.readyAt[j])
	})
	slices.SortStableFunc(c.lone, func(i, j int32) int {
		return cmp.Compare(c.loneAt[i], c.loneAt[j])
	})
}

// orders are by what a part is preferred: it is needed late, is large, is small, is idle for long.
var orders = [...]func(a, b *part) int{
	func(a, b *part) int { return cmp.Compare(b.need, a.need) },
	func(a, b *part) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(b.need, a.need))
	},
	func(a, b *part) int {
		return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(b.need, a.need))
	},
	func(a, b *part) int { return cmp.Compare(b.need-b.idle, a.need-a.idle) },
}

// choose adds parts until the limit is kept without a wait, or with waits if the chooser is
// stalls. False: it found no such choice.
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
	for c.steps = choosing; c.steps > 0; {
		for !c.latest() {
			c.drop()
		}
		added, ok := c.round(false)
		if !added || !ok {
			return ok
		}
	}
	return false
}

// latest gives each chosen part its times without waits: out as soon as it can, back as late as it
// can. False: some would have to be back before they are out.
func (c *chooser) latest() bool {
	c.steps -= len(c.parts)
	if c.stalls {
		copy(c.out, c.readyAt)
		copy(c.back, c.loneAt)
		return true
	}
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
