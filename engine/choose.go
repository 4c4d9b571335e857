package engine

import "stalloc/internal/mem"

// A choice is one way to stitch: so many new pages behind a view's last one. The
// first page of a new view may be a partly used handle in whose free end the block
// begins, the last page one in whose free beginning it ends.
type choice struct {
	view  uint32 // zero: a new one
	tail  unit   // free units at the view's end that the block starts in
	lead  unit   // units of the block in the head
	pages int    // to map, head and last included
	head  uint32 // zero: the block starts with a wholly free handle
	last  uint32 // zero: it ends in one
	fresh int    // handles to create
	slack bool   // all handles are to be new

	private bool // the new view is to be a private one
	patch   bool // view is a private one to take over, pages an upper bound
}

// choose weighs the ways.
func (e *Engine) choose() choice {
	a := &e.act
	switch {
	case a.whole:
		return e.weigh(a.after, 0, false)
	case a.apart:
		return e.choosePrivate(e.weigh(0, 0, true))
	}
	h := &e.heaps[a.heap]
	best := e.weigh(0, 0, false)
	longest := choice{}
	for v := h.views[a.list]; v != 0; v = e.views[v].next {
		t := e.tail(v)
		c := e.weigh(v, t, false)
		if e.noRoom(c) {
			continue
		}
		if c.better(best) {
			best = c
		}
		if longest.view == 0 || t > longest.tail {
			longest = c
		}
	}
	best = e.choosePrivate(best)
	if a.rung == rungFirst && best.fresh < best.pages && longest.view != 0 {
		longest.pages = int((a.n - longest.tail + pageMask) >> pageShift)
		longest.fresh, longest.last, longest.slack = longest.pages, 0, true
		if e.withinSlack(longest.fresh) && !e.noRoom(longest) {
			return longest
		}
	}
	return best
}

// better reports whether c is cheaper than d: in new handles, then in maps. Of
// equals an existing view is better, so that views stay few.
func (c choice) better(d choice) bool {
	if c.fresh != d.fresh {
		return c.fresh < d.fresh
	}
	if x, y := c.cost(), d.cost(); x != y {
		return x < y
	}
	return d.view == 0
}

// cost is the driver's work, in maps.
func (c choice) cost() float64 {
	if c.patch {
		return patchCost * float64(c.pages)
	}
	return float64(c.pages)
}

func (e *Engine) noRoom(c choice) bool {
	v := &e.views[c.view]
	return v.n+uint32(c.pages) > v.room
}

// weigh returns the cheapest way to make room behind the tail of view v.
// alone: without a handle that the block shares at its start.
func (e *Engine) weigh(v uint32, tail unit, alone bool) choice {
	a := &e.act
	need := a.n - tail
	c := choice{view: v, tail: tail, pages: int((need + pageMask) >> pageShift)}
	free := e.heaps[a.heap].freeCount
	if v != 0 {
		free -= e.views[v].free
	}
	stitch := e.cfg.Stitch || a.rung > rungFirst || a.whole
	if !stitch {
		free = 0
	}
	c.fresh = max(c.pages-free, 0)
	if rest := need & pageMask; rest != 0 && !a.whole && stitch {
		e.share(&c, rest, alone)
	}
	return c
}

// share looks for partly used handles that take the rest of the block, its part
// beyond whole handles, and so save making one more: the tightest fit at the end
// of the block or, in a new view, at its start; or else both.
func (e *Engine) share(c *choice, rest unit, alone bool) {
	h := e.act.heap
	last := e.edgeFit(h, prefix, rest, c.view, 0)
	head := uint32(0)
	if c.view == 0 && !alone {
		head = e.edgeFit(h, suffix, rest, 0, 0)
	}
	switch {
	case last != 0 && (head == 0 || e.handles[last].edge[prefix] <= e.handles[head].edge[suffix]):
		c.last = last
	case head != 0:
		c.head, c.lead = head, rest
	case c.view == 0 && !alone:
		if head = e.edgeBelow(h, suffix, rest); head == 0 {
			return
		}
		lead := unit(e.handles[head].edge[suffix])
		if last = e.edgeFit(h, prefix, rest-lead, 0, head); last == 0 {
			return
		}
		c.head, c.lead, c.last = head, lead, last
		c.pages++
	default:
		return
	}
	if c.fresh > 0 {
		c.fresh--
	}
}

// slackAtLeast is the slack of a pool so small that a share of it is nothing: what it
// would save is not worth handles that two views map, for every change is then made
// twice.
const slackAtLeast = 8 * mem.MiB

// withinSlack reports whether so many new handles keep the device's memory
// within the slack above the peak load, and within what the request may take.
func (e *Engine) withinSlack(fresh int) bool {
	held, most := e.stats.Handles+fresh, e.limit
	if e.act.most > 0 {
		most = min(most, e.act.most)
	}
	slack := e.slack
	if held <= e.limit-e.limit/firstLeaves && e.isFirst() {
		slack = max(slack, e.cfg.First)
	}
	peak := max(e.stats.PeakHeld, e.stats.Load+e.stats.Pending+bytesOf(e.act.n))
	return within(held, slack, peak) && held <= most && !e.act.full
}

// within reports whether so many handles are no more than the slack above a peak of
// the load.
func within(handles int, slack float64, peak mem.Bytes) bool {
	reserved := bytesOf(pageUnits) * mem.Bytes(handles)
	least := float64(reserved) * (1 - slack)
	if slack > 0 {
		least = min(least, float64(reserved-slackAtLeast))
	}
	return least <= float64(peak)
}
