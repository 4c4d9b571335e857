package plan

import (
	"fmt"
	"slices"

	"stalloc/internal/mem"
)

// Plan says where the requests of a run are best placed, for a later run of the same
// program. It is immutable once published.
type Plan struct {
	Key    uint64    // of the run's first requests, see KeyOf
	Handle mem.Bytes // the size of handles that the run came to
	Spaces []Space
	// Boundaries is how many step boundaries Space.First spans, the one that ends it
	// included.
	Boundaries int
	// Late, if not zero, is where steps end: in this valley behind their mark.
	Late Valley
	// Brief is what was learned of blocks that are gone at their step's peak: the counts of
	// brief.Learner.
	Brief []int8
}

// Space is the part of a plan for the large or for the small requests of one stream.
type Space struct {
	Ordinal int       // place of the stream in the order of first requests
	Small   bool      // requests that have a space of their own
	Hold    mem.Bytes // where the highest block ends, a multiple of mem.HandleSize
	First   []Request // set-up and the first steps
	Step    []Request // any step behind them; none: steps do not repeat
}

// Request is one request and where its block is wished.
type Request struct {
	Size mem.Bytes  // rounded
	At   mem.Offset // from where the space begins, or Nowhere
	Life int        // how many requests of the space later its bytes were free; 0: not in First and Step
}

// Nowhere is the offset of a request without a wish.
const Nowhere mem.Offset = -1

// Valley is the place shortly behind the beginning of a step where the least is live.
type Valley struct {
	Requests int       // made before it
	Drop     mem.Bytes // by which the load is lower there than at the beginning
}

// Requests returns how many requests the plan knows.
func (p *Plan) Requests() (n int) {
	for i := range p.Spaces {
		n += len(p.Spaces[i].First) + len(p.Spaces[i].Step)
	}
	return n
}

// Run names all that a run's beginning asks for.
func (p *Plan) Run() uint64 {
	key := p.Key
	for i := range p.Spaces {
		for _, r := range p.Spaces[i].First {
			key = mix(key, uint64(r.Size))
		}
	}
	return key
}

// Loads returns what was live in the space before each request of First, and of Step.
func (s *Space) Loads() (first, step []mem.Bytes) {
	list := slices.Concat(s.First, s.Step)
	loads, ends := make([]mem.Bytes, len(list)), make([]mem.Bytes, len(list)+1)
	load := mem.Bytes(0)
	for i, r := range list {
		load -= ends[i]
		loads[i] = load
		load += r.Size
		if r.Life > 0 && r.Life < len(ends)-i {
			ends[i+r.Life] += r.Size
		}
	}
	return loads[:len(s.First)], loads[len(s.First):]
}

// maxBoundaries bounds what First may span. Set-up and the first steps have few.
const maxBoundaries = 1 << 10

// Validate reports the first thing that no plan may say.
func (p *Plan) Validate() error {
	if p.Boundaries < 0 || p.Boundaries > maxBoundaries {
		return fmt.Errorf("plan: %d boundaries, expected at most %d", p.Boundaries, maxBoundaries)
	}
	if p.Handle < 0 || p.Handle%mem.HandleSize != 0 {
		return fmt.Errorf("plan: handles of %d bytes, expected a multiple of %d", p.Handle, mem.HandleSize)
	}
	for i := range p.Spaces {
		s := &p.Spaces[i]
		if err := s.validate(); err != nil {
			return fmt.Errorf("plan: stream %d: %w", s.Ordinal, err)
		}
	}
	return nil
}

func (s *Space) validate() error {
	if s.Ordinal < 0 || s.Hold < 0 || s.Hold%mem.HandleSize != 0 {
		return fmt.Errorf("it is to hold %d bytes, expected a multiple of %d", s.Hold, mem.HandleSize)
	}
	for _, part := range [][]Request{s.First, s.Step} {
		for i, r := range part {
			switch {
			case r.Life < 0:
				return fmt.Errorf("request %d lives for %d others, expected 0 or more", i, r.Life)
			case r.Size <= 0 || r.Size%mem.Grain != 0:
				return fmt.Errorf("request %d has %d bytes, expected a multiple of %d", i, r.Size, mem.Grain)
			case r.At == Nowhere:
			case r.At < 0 || r.At%mem.Offset(mem.Grain) != 0 || mem.Bytes(r.At) > s.Hold-r.Size:
				return fmt.Errorf("request %d of %d bytes lies at %d, which is not within the %d bytes to hold", i, r.Size, r.At, s.Hold)
			}
		}
	}
	return nil
}
