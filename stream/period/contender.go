package period

import "stalloc/internal/mem"

const (
	depth  = 48 // contenders kept
	rivals = 3  // good valleys remembered between two visits of a contender
	gaps   = 8  // of a contender, a power of two
	cycle  = gaps / 2
	// window is how long a peak counts as the usual height of the load.
	window mem.Tick = 1 << 20
	// shallow: a contender's valley is at least a fraction of the usual height
	// deep. It keeps layers and the optimizer's loop off the stack.
	shallow = 8
)

// contender is a valley that may be the end of a step.
type contender struct {
	valley               // as at the last visit
	since      mem.Bytes // highest load from the last visit to the contender above
	crest      mem.Bytes // highest load in the last gap
	gap        [gaps]mem.Tick
	visits     int
	run        mem.Tick // events over which the gaps agree
	rivals     [rivals]valley
	rival      int    // how many
	profile    uint64 // the id of the profile it was confirmed as, or 0
}

// lastGap returns the i-th last gap, 0 being the last.
func (c *contender) lastGap(i int) mem.Tick { return c.gap[(c.visits-2-i)&(gaps-1)] }

// stack holds contenders of falling score.
type stack struct {
	at [depth]contender
	n  int

	peak, before mem.Bytes // highest load in this window and in the last
	until        mem.Tick  // end of this window
}

// height returns the usual height of the load above a level.
func (s *stack) height(level mem.Bytes) mem.Bytes { return max(s.peak, s.before) - level }

// tolerance returns how far the levels of one place may lie apart.
func (s *stack) tolerance(v *valley, cut mem.Bytes) mem.Bytes { return s.height(v.level)/256 + cut }

// climb takes note of the highest load since the last valley.
func (s *stack) climb(crest mem.Bytes, now mem.Tick) {
	if now >= s.until {
		s.before, s.peak, s.until = s.peak, crest, now+window
	}
	s.peak = max(s.peak, crest)
	if s.n > 0 {
		top := &s.at[s.n-1]
		top.since = max(top.since, crest)
	}
}

// find returns the place of the contender that v is another visit of, or -1.
func (s *stack) find(v *valley, tol mem.Bytes) int {
	most := v.score() + levelWeight*tol + tol/4 + v.fall/8
	for i := s.n - 1; i >= 0 && s.at[i].score() <= most; i-- {
		if alike(&s.at[i].valley, v, tol) {
			return i
		}
	}
	return -1
}

// removed is what came off the stack: the highest load and the best valleys.
type removed struct {
	crest  mem.Bytes
	rivals [rivals]valley
	rival  int
}

// add keeps a valley if it is among the best. Order in time is kept.
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
	if s.n > 0 {
		below := &s.at[s.n-1]
		below.since = max(below.since, c.since)
	}
	least := v.score() - v.fall/2
	// Between two visits of c lie its rivals; behind the last one there are none.
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
func (s *stack) push(v *valley, r *removed) {
	crest := r.crest
	if s.n > 0 {
		crest = max(crest, s.at[s.n-1].since)
	}
	if crest-v.level < s.height(v.level)/shallow || s.n == depth && !s.thin() {
		return
	}
	s.at[s.n] = contender{valley: *v, since: v.level, crest: crest, visits: 1, rivals: r.rivals, rival: r.rival}
	s.n++
}

// thin drops contenders that the load has outgrown, or else the oldest one that
// was visited only once.
func (s *stack) thin() bool {
	kept, peak := 0, mem.Bytes(0)
	drop := -1
	for i := 0; i < s.n && drop < 0; i++ {
		if c := &s.at[i]; c.visits == 1 && c.crest-c.level < s.height(c.level)/shallow {
			drop = i
		}
	}
	for i := 0; i < s.n && drop < 0; i++ {
		if s.at[i].visits == 1 {
			drop = i
		}
	}
	if drop < 0 {
		return false
	}
	peak = s.at[drop].since
	for i := range s.n {
		if i != drop {
			s.at[kept] = s.at[i]
			kept++
		}
	}
	if drop > 0 {
		s.at[drop-1].since = max(s.at[drop-1].since, peak)
	}
	s.n = kept
	return true
}

// visit records that v is contender i again. Everything above it is gone.
func (s *stack) visit(i int, v *valley, r *removed) {
	c := &s.at[i]
	r.crest = max(r.crest, c.since)
	gap := v.at - c.at
	c.gap[(c.visits-1)&(gaps-1)] = gap
	c.visits++
	if c.visits > 2 && c.agrees(r.crest-v.level) {
		c.run += gap
	} else {
		c.run = gap
	}
	if i > 0 {
		s.at[i-1].since = max(s.at[i-1].since, r.crest)
	}
	c.valley, c.crest, c.since = *v, r.crest, v.level
	c.rivals, c.rival = r.rivals, r.rival
}

// agrees reports whether the last gap is like the one before. The load may
// differ in height: sequences of another length, more of an expert's tokens.
func (c *contender) agrees(height mem.Bytes) bool {
	before := c.crest - c.level
	return near(c.lastGap(0), c.lastGap(1)) && height <= 4*before && before <= 4*height
}
