package residency

import "stalloc/internal/mem"

// What happens to a load at a time, in this order.
const (
	isOut   = iota // a chosen part's memory is free
	isReady        // a part could be out
	moment         // the load of everything changes
	isBack         // a chosen part's memory is taken again
	isLone         // a part that was chosen in this round would have to come back
	events
)

// never is behind all events.
const never = 4 * mostTime

// round goes through time with the times of the choice so far. Where the load is too high, it
// chooses parts that could be away by then, as if each were alone on the link. False: none can,
// or the choice is closed.
func (c *chooser) round(closed bool) (added, ok bool) {
	clear(c.credited)
	c.heap = c.heap[:0]
	c.front, ok = [events]front{}, true
	if closed {
		c.front[isReady].n, c.front[isLone].n = len(c.ready), len(c.lone)
	}
	for e := range c.front {
		c.look(e)
	}
	away, total := mem.Bytes(0), mem.Bytes(0)
	for {
		e := 0
		for other, x := range c.front {
			if x.at < c.front[e].at {
				e = other
			}
		}
		n, at := c.front[e].n, c.front[e].at
		if at == never {
			return added, ok
		}
		c.steps--
		c.front[e].n++
		c.look(e)
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
			if !c.credited[c.lone[n]] {
				continue
			}
			away -= c.parts[c.lone[n]].size
		}
		for total-away > c.limit {
			i := c.pick(at)
			if i < 0 {
				ok = false
				break
			}
			c.credited[i], c.chosen[i], added = true, true, true
			away += c.parts[i].size
		}
		if !ok && closed {
			return false, false
		}
	}
}

// pick returns the preferred part that can be away at a time, or -1.
func (c *chooser) pick(at Nanos) int32 {
	for len(c.heap) > 0 {
		if i := c.first[c.heap.pop()]; c.loneAt[i] > at {
			return i
		}
	}
	return -1
}

// look finds the next event of a sequence.
func (c *chooser) look(e int) {
	n := c.front[e].n
	c.front[e].at = never
	switch e {
	case isOut:
		for n < len(c.leave) && !c.settled(c.leave[n]) {
			n++
		}
		if n < len(c.leave) {
			c.front[e].at = c.out[c.leave[n]]
		}
	case isReady:
		if n < len(c.ready) {
			c.front[e].at = c.readyAt[c.ready[n]]
		}
	case moment:
		if n < len(c.times) {
			c.front[e].at = c.times[n]
		}
	case isBack:
		for n < len(c.come) && !c.settled(c.come[n]) {
			n++
		}
		if n < len(c.come) {
			c.front[e].at = c.back[c.come[n]]
		}
	case isLone:
		if n < len(c.lone) {
			c.front[e].at = c.loneAt[c.lone[n]]
		}
	}
	c.front[e].n = n
}

// settled reports whether a part was chosen before this round.
func (c *chooser) settled(i int32) bool { return c.chosen[i] && !c.credited[i] }
