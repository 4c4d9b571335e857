package period

import "stalloc/internal/mem"

// Detector finds the steps in the events of one stream. The zero value is
// ready. It must not be used by several goroutines at once.
type Detector struct {
	surface
	stack stack
	atlas atlas

	// The valley expected next: armed when a large free reached exactly the
	// place that a profile has, so many small events before its valley.
	armed  bool
	expect valley
	fits   uint64 // the profile

	// refuted is a repetition that turned out to lie inside a longer one.
	refuted struct{ gap, run mem.Tick }

	period mem.Tick // of the last boundary, 0 before the first
	last   mem.Tick // the last boundary
	steps  uint64
}

// Alloc takes a request of a rounded size. It reports whether a step ended
// before it.
func (d *Detector) Alloc(size mem.Bytes) (boundary bool) {
	if d.armed && d.quiet >= d.expect.rest {
		boundary = d.arrive()
	}
	if v, ok := d.request(max(size, 0)); ok && d.meet(&v) {
		boundary = true
	}
	return boundary
}

// Free takes the free of a block of a rounded size, at the time from which its
// memory may serve another request.
func (d *Detector) Free(size mem.Bytes) {
	if !d.release(max(size, 0)) {
		return
	}
	d.armed = false
	for i := range d.atlas.n {
		p := &d.atlas.at[i]
		if p.bare == d.load && p.fall+p.level-p.bare == d.top-d.load {
			d.armed, d.expect, d.fits = true, p.valley, p.id
			return
		}
	}
}

// Period returns the events of the last step, requests and frees together; 0
// before the first boundary.
func (d *Detector) Period() int64 { return int64(d.period) }

// arrive is called at the place where the expected valley would be.
func (d *Detector) arrive() bool {
	d.armed = false
	i := d.atlas.with(d.fits)
	if i < 0 || d.quiet != d.expect.rest || d.load != d.expect.level {
		return false
	}
	v := d.expect
	v.at = d.now
	return d.occur(i, &v)
}

// meet takes a valley that a large request has just ended.
func (d *Detector) meet(v *valley) (boundary bool) {
	d.armed = false
	d.stack.climb(d.crest, d.now)
	d.crest = d.load
	if i := d.atlas.find(v); i >= 0 {
		boundary = d.occur(i, v)
	}
	return d.contend(v) || boundary
}

// occur is called where profile i fits. It is a boundary unless it comes too
// soon after the last.
func (d *Detector) occur(i int, v *valley) bool {
	p := &d.atlas.at[i]
	if v.at-p.at < p.soonest {
		return false
	}
	d.atlas.occur(i, v)
	d.period, d.last = d.atlas.at[0].period, v.at
	d.steps++
	return true
}

// contend lets a valley take its place among the contenders. It reports
// whether v is the end of a step that was confirmed only now.
func (d *Detector) contend(v *valley) bool {
	s := &d.stack
	r := removed{crest: v.level}
	if i := s.find(v, d.cut); i >= 0 {
		for s.n > i+1 {
			s.pop(&r, v)
		}
		before := s.at[i].at
		s.visit(i, v, &r)
		d.refute(&s.at[i], before)
		return d.confirm(i)
	}
	for s.n > 0 && s.at[s.n-1].score() <= v.score() {
		s.pop(&r, v)
	}
	if s.push(v, &r) {
		d.refute(&s.at[s.n-1], s.start(s.n-1))
	}
	return false
}

// refute forgets the profiles that occurred since a tick and lie higher than c,
// which ends here: they were only parts of a step, such as microbatches. The
// same repetition will need to last longer to be believed again.
func (d *Detector) refute(c *contender, since mem.Tick) {
	tol := tolerance(c.crest-c.level, d.cut)
	for i := d.atlas.n - 1; i >= 0; i-- {
		p := &d.atlas.at[i]
		if p.at > since && p.at < c.at && p.level > c.level+tol {
			d.refuted.gap, d.refuted.run = p.period, min(p.at-p.since, 16*p.period)
			d.atlas.remove(i)
		}
	}
}

// confirm looks whether the gaps of contender i, just visited, prove a period.
func (d *Detector) confirm(i int) bool {
	c := &d.stack.at[i]
	gap := c.lastGap(0)
	if !d.believable(i, gap) {
		return false
	}
	if p := d.atlas.with(c.profile); p >= 0 && d.atlas.at[p].at > c.at-gap {
		return false // it occurred in this period, all is well
	}
	best := c.canonical()
	p := d.atlas.find(best)
	fresh := p < 0 || d.atlas.at[p].at != best.at
	c.profile = d.atlas.learn(p, best, gap, c.at-c.run, tolerance(c.crest-c.level, d.cut))
	if best.at != c.at {
		return false // passed already: the next one will be met
	}
	d.period, d.last = gap, c.at
	if fresh {
		d.steps++
	}
	return fresh
}

// believable reports whether the repetition of contender i counts as a period.
func (d *Detector) believable(i int, gap mem.Tick) bool {
	c := &d.stack.at[i]
	if gap < shortest {
		return false
	}
	if c.run == gap {
		// One gap is enough if it is the period known from before: the base
		// has moved, as when more layers are trained.
		if d.period == 0 || !near(gap, d.period) {
			return false
		}
	}
	if c.crest-c.level < d.stack.height(c.level)/shallow {
		return false
	}
	// A repetition counts when it is most of what there was since the better
	// contender below; and inside a known period it has to outlast that.
	if 5*c.run < 2*min(c.at-d.last, horizon) {
		return false
	}
	if i > 0 && d.stack.at[i-1].n > 1 && c.run <= d.stack.at[i-1].lastGap(0) {
		return false
	}
	return !near(gap, d.refuted.gap) || c.run > d.refuted.run+gap
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
	if next-(c.at-c.lastGap(0)) >= longest {
		best = &c.valley
	}
	return best
}
