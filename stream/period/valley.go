package period

import "stalloc/internal/mem"

const (
	// levelWeight is the worth of a byte of load in bytes of release.
	levelWeight = 8
	// smallShift sets the size below which a block is set aside: the widest
	// swing of the load so far, shifted right by this.
	smallShift = 17
)

// valley is a place where a run of large frees ends: the lowest load between
// the last of them and the next large request, the last such place if the load
// is equally low at several.
type valley struct {
	at    mem.Tick  // events before it
	level mem.Bytes // load there
	fall  mem.Bytes // load at the start of the run of frees − level
}

func (v *valley) score() mem.Bytes { return v.fall - levelWeight*v.level }

// alike reports whether two valleys can be the same place of two periods. tol
// is how far their levels may lie apart.
func alike(a, b *valley, tol mem.Bytes) bool {
	return within(a.level, b.level, tol) && within(a.fall, b.fall, tol/4+max(a.fall, b.fall)/16)
}

func within[T mem.Bytes | mem.Tick](a, b, tol T) bool { return a-b <= tol && b-a <= tol }

// near reports whether two gaps differ by no more than the number of requests
// does between steps of a model with expert layers.
func near(a, b mem.Tick) bool { return within(a, b, max(a, b)/8) }

// surface follows the load event by event and knows where the current valley
// would be. A large event is one of at least cut bytes.
type surface struct {
	now         mem.Tick  // events so far
	load        mem.Bytes // may be negative if blocks are freed that were never seen
	least, most mem.Bytes // of the load, ever
	cut         mem.Bytes
	settled     bool      // steps were found with this cut
	crest       mem.Bytes // highest load since it was last taken

	top   mem.Bytes // load behind the last large request
	quiet int64     // small events since
	low   mem.Bytes // lowest load before a request since the last large event
	lowAt int64     // and the value of quiet there
}

// request adds a request to the load. If it is large and ends a run of frees,
// it returns the valley before it.
func (s *surface) request(size mem.Bytes) (v valley, ok bool) {
	if s.load <= s.low {
		s.low, s.lowAt = s.load, s.quiet
	}
	large := size >= s.cut
	if large && s.top-s.low >= s.cut {
		v, ok = valley{at: s.now - mem.Tick(s.quiet-s.lowAt), level: s.low, fall: s.top - s.low}, true
	}
	s.now++
	s.load += size
	if large {
		s.top = s.load
		s.settle()
	} else {
		s.quiet++
	}
	if s.load > s.crest {
		s.crest = s.load
		if s.load > s.most {
			s.most = s.load
			s.widen()
		}
	}
	return v, ok
}

// release takes a free from the load.
func (s *surface) release(size mem.Bytes) {
	s.now++
	s.load -= size
	if size >= s.cut {
		s.settle()
	} else {
		s.quiet++
	}
	if s.load < s.least {
		s.least = s.load
		s.widen()
	}
}

// settle starts a new quiet stretch behind a large event.
func (s *surface) settle() { s.low, s.quiet, s.lowAt = s.load, 0, 0 }

// widen raises the cut with the swing of the load, in powers of two so that it
// soon stops changing. The places it defines must stay, so it never goes down,
// and once there are steps it stays as long as it is not far too low.
func (s *surface) widen() {
	s.cut = max(s.cut, mem.Grain)
	target := (s.most - s.least) >> smallShift
	if s.settled && s.cut > target/32 {
		return
	}
	for s.cut <= target/2 {
		s.cut *= 2
	}
}
