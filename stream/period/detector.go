package period

import "stalloc/internal/mem"

// Detector finds the steps in the events of one stream. The zero value is
// ready. It must not be used by several goroutines at once.
type Detector struct {
	surface
	stack   stack
	atlas   atlas
	removed removed // scratch

	// refuted is a repetition that turned out to lie inside a longer one.
	refuted struct{ gap, run mem.Tick }

	period mem.Tick // of the last boundary, 0 before the first
	last   mem.Tick // the last boundary
}

// Alloc takes a request of a rounded size. It reports whether a step ended
// before it.
func (d *Detector) Alloc(size mem.Bytes) (boundary bool) {
	v, ok := d.request(max(size, 0))
	return ok && d.meet(&v)
}

// Free takes the free of a block of a rounded size, at the time from which its
// memory may serve another request.
func (d *Detector) Free(size mem.Bytes) { d.release(max(size, 0)) }

// meet takes a valley that a large request has just ended.
func (d *Detector) meet(v *valley) (boundary bool) {
	d.stack.climb(d.crest, d.now)
	d.crest = d.load
	if i := d.atlas.find(v); i >= 0 {
		boundary = d.occur(i, v)
	}
	return d.contend(v) || boundary
}

// occur is called where profile i fits. It is a boundary unless it comes too
// soon after the last of its kind or of any.
func (d *Detector) occur(i int, v *valley) bool {
	p := &d.atlas.at[i]
	if v.at-p.at < p.soonest || v.at-d.last < shortest {
		return false
	}
	d.atlas.occur(i, v)
	d.period, d.last = d.atlas.at[0].period, v.at
	return true
}

// contend lets a valley take its place among the contenders. It reports
// whether v is the end of a step that was confirmed only now.
func (d *Detector) contend(v *valley) bool {
	s := &d.stack
	r := &d.removed
	r.crest, r.rival = v.level, 0
	if i, crest := s.find(v, d.cut); i >= 0 {
		if crest-v.level < s.height(v.level)/shallow {
			return false // a loop at the base, as of an optimizer: still the same visit
		}
		for s.n > i+1 {
			s.pop(r, v)
		}
		before := s.at[i].at
		s.visit(i, v, r)
		d.refute(&s.at[i], before)
		return d.confirm(i)
	}
	for s.n > 0 && s.at[s.n-1].score() <= v.score() {
		s.pop(r, v)
	}
	if s.push(v, r) {
		d.refute(&s.at[s.n-1], s.start(s.n-1))
	}
	return false
}

// refute forgets the profiles that occurred since a tick, when the gap that ends
// at c began, and that turn out to be parts of a step, such as microbatches:
// they lie higher than c, or are shorter than a gap that repeats with them in
// it. The same repetition will need to last longer to be believed again.
func (d *Detector) refute(c *contender, since mem.Tick) {
	tol := tolerance(c.crest-c.level, d.cut)
	for i := d.atlas.n - 1; i >= 0; i-- {
		p := &d.atlas.at[i]
		run := p.at - p.since
		inside := p.at > since && p.at < c.at && p.id != c.profile
		part := c.run > c.gap && !near(p.period, c.gap)
		if inside && (part || p.level > c.level+tol) {
			d.refuted.gap, d.refuted.run = p.period, min(run, 16*p.period)
			d.atlas.remove(i)
		}
	}
}

// confirm looks whether the gaps of contender i, just visited, prove a period.
func (d *Detector) confirm(i int) bool {
	c := &d.stack.at[i]
	if !d.believable(i) || d.served(c) {
		return false
	}
	d.settled = true
	best := c.canonical()
	p := d.atlas.find(best)
	if p < 0 {
		p = d.atlas.with(c.profile) // a place that has gone gives way to the new one
	}
	c.profile = d.atlas.learn(p, best, c.gap, c.at-c.run, tolerance(c.crest-c.level, d.cut))
	if best.at != c.at || c.at-d.last < shortest {
		return false // passed already: the next one will be met
	}
	d.period, d.last = c.gap, c.at
	return true
}

// served reports whether the period of c has its boundary already: now, or at
// another place of it. There it may have failed to occur once.
func (d *Detector) served(c *contender) bool {
	for i := range d.atlas.n {
		p := &d.atlas.at[i]
		same, place := near(p.period, c.gap), alike(&p.valley, &c.valley, p.tol)
		if p.at == c.at || !place && (p.at > c.at-c.gap || same && p.at > c.at-2*c.gap) {
			if same {
				c.profile = p.id
			}
			return true
		}
	}
	return false
}

// believable reports whether the repetition of contender i counts as a period.
func (d *Detector) believable(i int) bool {
	c := &d.stack.at[i]
	if c.gap < shortest {
		return false
	}
	if c.run == c.gap {
		// One gap is enough if it is the period known from before: the base
		// has moved, as when more layers are trained.
		if d.period == 0 || !near(c.gap, d.period) {
			return false
		}
	}
	height := c.crest - c.level
	if height < d.stack.height(c.level)/shallow || height < (d.most-d.least)/32 {
		return false
	}
	// A repetition counts when it is much of what there was since the last
	// boundary; and inside what repeats at a better place it has to outlast that.
	if 5*c.run < 2*min(c.at-d.last, horizon) {
		return false
	}
	nearest := true
	for i--; i >= 0; i-- {
		outer := &d.stack.at[i]
		if outer.visits == 1 {
			continue
		}
		if (nearest || outer.run > outer.gap) && c.run <= outer.gap {
			return false
		}
		nearest = false
	}
	return !near(c.gap, d.refuted.gap) || c.run > d.refuted.run+c.gap
}

// canonical returns the valley of the last period that begins a step: of the
// good ones that with the longest stretch of events before the next.
func (c *contender) canonical() *valley {
	var good [rivals]*valley // in the order of time
	n := 0
	for i := range c.rival {
		r := &c.rivals[i]
		if r.fall-levelWeight*(r.level-c.level) < c.fall/2 {
			continue
		}
		at := n
		for ; at > 0 && good[at-1].at > r.at; at-- {
			good[at] = good[at-1]
		}
		good[at] = r
		n++
	}
	// c itself ends the period and, one period ago, began it.
	best, longest, next := &c.valley, mem.Tick(0), c.at
	for i := n - 1; i >= 0; i-- {
		if next-good[i].at > longest {
			best, longest = good[i], next-good[i].at
		}
		next = good[i].at
	}
	if next-(c.at-c.gap) >= longest {
		best = &c.valley
	}
	return best
}
