package period

import "stalloc/internal/mem"

const (
	depth  = 48 // contenders kept
	rivals = 3  // good valleys remembered of a contender's last gap
	// window is how long a peak counts as the usual height of the load.
	window mem.Tick = 1 << 20
	// shortest is the least number of events that can be a step.
	shortest mem.Tick = 16
	// horizon is how far back irregular events can hold against a period.
	horizon mem.Tick = 1 << 18
	// shallow: a contender's valley is at least a fraction of the usual height
	// deep. It keeps layers and the optimizer's loop off the stack.
	shallow = 4
)

// contender is a valley that may be the end of a step.
type contender struct {
	valley            // as at the last visit
	since   mem.Bytes // highest load from the last visit to the contender above
	crest   mem.Bytes // highest load in the last gap
	gap     mem.Tick  // events from the visit before; at first from the contender below
	visits  int
	run     mem.Tick // events over which the gaps agree
	rivals  [rivals]valley
	rival   int    // how many
	profile uint64 // the id of the profile it was confirmed as, or 0
}

// stack holds contenders of falling score.
type stack struct {
	at [depth]contender
	n  int

	ground       mem.Bytes // highest load before the first contender
	peak, before mem.Bytes // highest load in this window and in the last
	until        mem.Tick  // end of this window
}

// height returns the usual height of the load above a level.
func (s *stack) height(level mem.Bytes) mem.Bytes { return max(s.peak, s.before) - level }

// tolerance returns how far the levels of one place may lie apart if the load
// between two visits rises that high above it.
func tolerance(height, cut mem.Bytes) mem.Bytes { return height/256 + cut }

// climb takes note of the highest load since the last valley.
func (s *stack) climb(crest mem.Bytes, now mem.Tick) {
	if now >= s.until {
		s.before, s.peak, s.until = s.peak, crest, now+window
	}
	s.peak = max(s.peak, crest)
	s.raise(s.n, crest)
}

// below returns the highest load from the contender below place i on.
func (s *stack) below(i int) mem.Bytes {
	if i == 0 {
		return s.ground
	}
	return s.at[i-1].since
}

// start returns when the contender below place i was visited last.
func (s *stack) start(i int) mem.Tick {
	if i == 0 {
		return 0
	}
	return s.at[i-1].at
}

// raise takes note of a load behind the contender below place i.
func (s *stack) raise(i int, crest mem.Bytes) {
	if i == 0 {
		s.ground = max(s.ground, crest)
	} else {
		s.at[i-1].since = max(s.at[i-1].since, crest)
	}
}

// find returns the place of the contender that v is another visit of, or -1,
// and the highest load since its last visit.
func (s *stack) find(v *valley, cut mem.Bytes) (i int, crest mem.Bytes) {
	crest = v.level
	for i := s.n - 1; i >= 0; i-- {
		c := &s.at[i]
		crest = max(crest, c.since)
		tol := tolerance(crest-v.level, cut)
		if alike(&c.valley, v, tol) {
			return i, crest
		}
		if c.score() > v.score()+(levelWeight+1)*tol+v.fall/8 {
			break
		}
	}
	return -1, crest
}

// removed is what came off the stack: the highest load and the best valleys.
type removed struct {
	crest  mem.Bytes
	rivals [rivals]valley
	rival  int
}

// add keeps a valley if it is among the best.
func (r *removed) add(v *valley) {
	if r.rival == rivals {
		worst := 0
		for i := range r.rivals {
			if r.rivals[i].score() < r.rivals[worst].score() {
				worst = i
			}
		}
		if r.rivals[worst].score() >= v.score() {
			return
		}
		copy(r.rivals[worst:], r.rivals[worst+1:])
		r.rival--
	}
	r.rivals[r.rival] = *v
	r.rival++
}

// pop takes the top off. What lies far below v in score is forgotten.
func (s *stack) pop(r *removed, v *valley) {
	s.n--
	c := &s.at[s.n]
	r.crest = max(r.crest, c.since)
	s.raise(s.n, c.since)
	least := v.score() - v.fall/2
	// The rivals of c came between its last two visits, or before its only one.
	for i := range c.rival {
		if c.rivals[i].score() >= least {
			r.add(&c.rivals[i])
		}
	}
	if c.score() >= least {
		r.add(&c.valley)
	}
}

// push puts a new contender on top if its valley is deep enough.
func (s *stack) push(v *valley, r *removed) bool {
	crest := max(r.crest, s.below(s.n))
	rise := crest - v.level
	if rise < s.height(v.level)/shallow || s.n == depth && !s.thin(rise) {
		return false
	}
	// Field by field: what rival does not count need not be cleared.
	c := &s.at[s.n]
	c.valley, c.since, c.crest, c.profile = *v, v.level, crest, 0
	c.gap = v.at - s.start(s.n)
	c.visits, c.run = 1, c.gap
	c.rival = copy(c.rivals[:], r.rivals[:r.rival])
	s.n++
	return true
}

// thin makes room for a contender that rises so far out of the load before it.
// The least of those visited only once goes, or the oldest if there is none. It
// reports whether there is room now.
func (s *stack) thin(rise mem.Bytes) bool {
	drop := -1
	for i := range s.n {
		if c := &s.at[i]; c.visits == 1 && c.crest-c.level < rise {
			drop, rise = i, c.crest-c.level
		}
	}
	if drop < 0 {
		if s.at[s.n-1].visits == 1 {
			return false
		}
		drop = 0
	}
	s.raise(drop, s.at[drop].since)
	copy(s.at[drop:], s.at[drop+1:s.n])
	s.n--
	return true
}

// visit records that v is contender i again. Everything above it is gone.
func (s *stack) visit(i int, v *valley, r *removed) {
	c := &s.at[i]
	crest := max(r.crest, c.since)
	gap := v.at - c.at
	if c.agrees(gap, crest-v.level) {
		c.run += gap
	} else {
		c.run = gap
	}
	c.gap = gap
	c.visits++
	s.raise(i, crest)
	c.valley, c.crest, c.since = *v, crest, v.level
	c.rival = copy(c.rivals[:], r.rivals[:r.rival])
}

// agrees reports whether a gap over which the load rose so high is like the one
// before. The height may differ: sequences of another length, more tokens for
// an expert.
func (c *contender) agrees(gap mem.Tick, height mem.Bytes) bool {
	before := c.crest - c.level
	return near(gap, c.gap) && height <= 4*before && before <= 4*height
}
