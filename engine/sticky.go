package engine

// Sticky placement: a training step repeats itself, so the request that is the
// k-th of its size in this step wants the address the k-th of that size had in
// the last one. If every request gets it, the next step needs no driver call at
// all, however many pages the first one had to stitch. A hint is only a wish: it
// is taken if all its bytes are free.
//
// A step whose sizes follow its data does not: what it asks for the k-th time lay
// elsewhere by accident, and going back there breaks up what others will want. So
// where fewer than two of three requests had a namesake one step before, wishes are
// noted and not followed, but for large blocks. Where even a step that repeats
// itself stitches much of the memory (economy.go), none is followed: blocks that
// wait for other streams keep the places of the next ones.
//
// Two addresses are kept, because a block that lives across the boundary (a
// gradient freed after its successor is made) alternates between two places.

const (
	hintPlaces  = 2
	hintSteps   = 4       // steps without use after which a hint is forgotten
	maxOrdinals = 1 << 20 // per step: without boundaries the table must not grow for ever
)

// The least size, in units, of a block whose wish is followed.
const (
	followAll   = unit(0)
	followLarge = 40 * pageUnits
	followNone  = ^unit(0)
)

type hint struct {
	key   uint64
	at    [hintPlaces]unit // zero: none
	epoch uint64           // step of the last use
}

type counter struct {
	key   uint64
	epoch uint64
	n     uint64
}

type hints struct {
	epoch    uint64
	ordinals int  // hints asked for in this step
	known    int  // of those, that were asked for in the step before as well
	follow   unit // followAll, or something larger
	at       table
	list     []hint
	countAt  table
	counts   []counter
}

func newHints() hints {
	return hints{
		epoch: 2, // a hint that is new was asked for in none
		at:    newTable(1 << 10), list: make([]hint, 1),
		countAt: newTable(1 << 8), counts: make([]counter, 1),
	}
}

// of returns the hint of the next request of n units in heap h, made if needed;
// zero once a step has asked for too many. Keys are hashes: a collision costs a
// hint, never correctness.
func (s *hints) of(h uint32, n unit) uint32 {
	if s.ordinals >= maxOrdinals {
		return 0
	}
	s.ordinals++
	size := mix(uint64(n)<<16 ^ uint64(h))
	c := s.countAt.get(size)
	if c == 0 {
		s.counts = append(s.counts, counter{key: size})
		c = uint32(len(s.counts) - 1)
		s.countAt.put(size, c)
	}
	if s.counts[c].epoch != s.epoch {
		s.counts[c].epoch, s.counts[c].n = s.epoch, 0
	}
	s.counts[c].n++
	key := mix(size + s.counts[c].n*0x9e3779b97f4a7c15)
	x := s.at.get(key)
	if x == 0 {
		s.list = append(s.list, hint{key: key})
		x = uint32(len(s.list) - 1)
		s.at.put(key, x)
	}
	if s.list[x].epoch+1 == s.epoch {
		s.known++
	}
	s.list[x].epoch = s.epoch
	return x
}

// note records where the request was placed after all.
func (s *hints) note(x uint32, at unit) {
	c := &s.list[x]
	if c.at[0] != at {
		c.at[1], c.at[0] = c.at[0], at
	}
}

// repeats reports whether the step so far asks for what the last one did.
func (s *hints) repeats() bool { return 3*s.known >= 2*s.ordinals }

// boundary starts the next step, and drops old hints once they are the majority.
func (s *hints) boundary() {
	live := s.ordinals
	switch {
	case s.follow == followNone:
	case s.repeats():
		s.follow = followAll
	default:
		s.follow = followLarge
	}
	s.epoch++
	s.ordinals, s.known = 0, 0
	if len(s.list) < 2*live+1<<12 {
		return
	}
	s.at.clear()
	keep := s.list[:1]
	for _, c := range s.list[1:] {
		if c.epoch+hintSteps >= s.epoch {
			keep = append(keep, c)
			s.at.put(c.key, uint32(len(keep)-1))
		}
	}
	s.list = keep
	s.countAt.clear()
	counts := s.counts[:1]
	for _, c := range s.counts[1:] {
		if c.epoch+hintSteps >= s.epoch {
			counts = append(counts, c)
			s.countAt.put(c.key, uint32(len(counts)-1))
		}
	}
	s.counts = counts
}

// sticky returns a view and the place in it that hint x wishes, if n units are
// free there.
func (e *Engine) sticky(h uint32, x uint32, n unit) (uint32, unit, bool) {
	if n < e.hints.follow {
		return 0, 0, false
	}
	for _, at := range e.hints.list[x].at {
		if at == 0 {
			continue
		}
		v := e.pages[at>>pageShift].view
		if e.views[v].heap == h && e.freeAt(v, at, at+n) != 0 {
			return v, at, true
		}
	}
	return 0, 0, false
}
