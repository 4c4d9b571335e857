package exact

import (
	"cmp"
	"slices"

	"stalloc/plan/solve/dsa"
)

// Search decides whether an instance fits below a capacity.
type Search struct {
	in *dsa.Instance
	shape
	placement
	effort

	capacity int64
	order    Order
	rank     []int64 // by box: its place in the order of its part

	stamp   []int32 // by tick: the last node that saw it affected
	node    int32
	touched []int32
	queue   []release
	pool    []int32 // the lists of the nodes on the way down
	table   []failure
	try     int32
}

// shape is what is known of the instance.
type shape struct {
	pieces   [][]dsa.Piece // by box
	overlaps [][]overlap   // by box: those that live with it
	sections [][]int32     // by tick: the boxes that live in it
	features [numFeatures][]int64
	// boxes never lie in each other's windows: that there is no solution is proved
	whole bool
}

// placement is what is placed, and what follows from it.
type placement struct {
	at    []int64 // by box; unplaced: -1
	least []int64 // by box: the lowest offset above all that is placed
	floor []int64 // by tick: what is placed ends there
	rest  []int64 // by tick: the sum of what is not placed
	cuts  []int32 // by tick: how many unplaced boxes live in it and in the next
	trail []change
}

// effort is what the search may still do.
type effort struct {
	nodes  int64 // that may still be looked at
	looked int64 // ticks and boxes, in the last placement
	work   *dsa.Work
}

// overlap is a box that must lie so much above another, if it lies above it.
type overlap struct {
	box  int32
	rise int64
}

// change is what a number was before, for the way back.
type change struct {
	to  *int64
	was int64
}

// release is a part of a box that is not placed: where it may begin, and its height.
type release struct{ from, height int64 }

const unplaced = -1

// putUnits is what it takes to place a box and look whether the others may still fit, and so is a
// look at so many ticks or boxes that live with it.
const putUnits, looksAUnit = 16, 32

// outcome is how a part of the search ended.
type outcome int

const (
	none  outcome = iota // there is no solution
	found                // at has it
	out                  // of nodes, or of work
)

// New prepares a search. It takes memory for every pair of boxes that live together.
func New(in *dsa.Instance) *Search {
	n := len(in.IDs)
	s := &Search{in: in, rank: make([]int64, n), table: make([]failure, failures),
		stamp: make([]int32, in.Ticks),
		shape: shape{whole: true, pieces: make([][]dsa.Piece, n),
			overlaps: make([][]overlap, n), sections: make([][]int32, in.Ticks)},
		placement: placement{at: make([]int64, n), least: make([]int64, n),
			floor: make([]int64, in.Ticks), rest: make([]int64, in.Ticks),
			cuts: make([]int32, in.Ticks)}}
	for i := range n {
		s.pieces[i] = slices.Clone(in.Of(int32(i), nil))
		for _, p := range s.pieces[i] {
			s.whole = s.whole && p.From == 0 && p.To == in.Size[i]
			for t := p.Lo; t < p.Hi; t++ {
				s.sections[t] = append(s.sections[t], int32(i))
			}
		}
	}
	seen := slices.Repeat([]int32{-1}, n)
	for i := range n {
		for t := in.Lo[i]; t < in.Hi[i]; t++ {
			for _, other := range s.sections[t] {
				if int(other) != i && seen[other] != int32(i) {
					seen[other] = int32(i)
					if rise, meet := rise(s.pieces[i], s.pieces[other]); meet {
						s.overlaps[i] = append(s.overlaps[i], overlap{other, rise})
					}
				}
			}
		}
	}
	s.measure()
	return s
}

// rise returns how much above a box another lies at least, if it lies above it and they meet.
func rise(below, above []dsa.Piece) (rise int64, meet bool) {
	for _, x := range below {
		for _, y := range above {
			if x.Lo < y.Hi && y.Lo < x.Hi {
				rise, meet = max(rise, x.To-y.From), true
			}
		}
	}
	return rise, meet
}

// Fits searches for offsets below a capacity, trying boxes of equal offsets in an order, for so
// many nodes at most. solved says that it knows whether there are any, in at.
func (s *Search) Fits(capacity int64, order Order, nodes int64, work *dsa.Work) (at []int64,
	solved bool) {
	s.capacity, s.nodes, s.work = capacity, nodes, work
	s.try++
	s.order = order
	all := make([]int32, len(s.at))
	clear(s.floor)
	clear(s.rest)
	clear(s.cuts)
	for i := range s.at {
		all[i] = int32(i)
		s.at[i], s.least[i] = unplaced, 0
		if s.in.Pin != nil && s.in.Pin[i] != dsa.Free {
			s.least[i] = s.in.Pin[i]
		}
		for _, p := range s.pieces[i] {
			for t := p.Lo; t < p.Hi; t++ {
				s.rest[t] += p.To - p.From
			}
		}
		s.join(int32(i), 1)
	}
	s.trail = s.trail[:0]
	switch s.split(all, 0, s.in.Ticks) {
	case found:
		return s.at, true
	case none:
		return nil, s.whole
	}
	return nil, false
}

// split solves the parts of time between which no unplaced box lives, each on its own.
func (s *Search) split(boxes []int32, lo, hi int32) outcome {
	trail, mine := len(s.trail), len(s.pool)
	defer func() { s.pool = s.pool[:mine] }()
	o := found
	for from := lo; from < hi && o == found; {
		to := from + 1
		for to < hi && s.cuts[to-1] > 0 {
			to++
		}
		start := len(s.pool)
		for _, box := range boxes {
			if s.at[box] == unplaced && s.in.Lo[box] >= from && s.in.Hi[box] <= to {
				s.pool = append(s.pool, box)
			}
		}
		if part := s.pool[start:]; len(part) > 0 {
			s.sort(part)
			o = s.place(part, from, to, 0, 0)
		}
		from = to
	}
	if o != found { // the parts before have been placed
		for _, box := range s.pool[mine:] {
			if s.at[box] != unplaced {
				s.takeBack(box, trail)
				s.join(box, 1)
			}
		}
	}
	return o
}

// join counts a box among those that hold its ticks together, or no more.
func (s *Search) join(box int32, by int32) (apart bool) {
	for t := s.in.Lo[box]; t < s.in.Hi[box]-1; t++ {
		s.cuts[t] += by
		apart = apart || s.cuts[t] == 0
	}
	return apart
}

// place looks at one node: which of the boxes, all that live in [lo, hi) and some that are placed,
// is the next in the order of offsets, none lower than the last one's, of equals by rank.
func (s *Search) place(boxes []int32, lo, hi int32, last int64, lastRank int64) outcome {
	if s.nodes < 0 || !s.work.Do(1+int64(len(boxes))/16) {
		return out
	}
	// A box that ends below another's place could lie there: above is dominated.
	lowest, key := int64(1)<<62, uint64(0)
	mine := len(s.pool)
	defer func() { s.pool = s.pool[:mine] }()
	for _, box := range boxes {
		if s.at[box] == unplaced {
			s.pool = append(s.pool, box)
			lowest = min(lowest, s.least[box]+s.in.Size[box])
			key += state(box, s.least[box])
		}
	}
	left := s.pool[mine:]
	if len(left) == 0 {
		return found
	}
	if s.failed(key, last, lastRank) {
		return none
	}
	for _, box := range left {
		if at := s.least[box]; at < lowest && (at > last || at == last && s.rank[box] >= lastRank) {
			s.pool = append(s.pool, box)
		}
	}
	next := s.pool[mine+len(left):]
	left = s.pool[mine : mine+len(left)]
	slices.SortFunc(next, func(a, b int32) int {
		return cmp.Or(cmp.Compare(s.least[a], s.least[b]), cmp.Compare(s.rank[a], s.rank[b]))
	})
	for i, box := range next {
		if i > 0 && s.same(next[i-1], box) {
			continue // it would be the same as with that one
		}
		if s.nodes--; !s.work.Do(putUnits + s.looked/looksAUnit) {
			return out
		}
		mark := len(s.trail)
		hatless, ok := s.put(box, lo, hi)
		o := none
		if ok {
			o = s.below(left, lo, hi, box)
		}
		if o == found {
			return found
		}
		s.takeBack(box, mark)
		if o == out {
			return out
		}
		if hatless {
			break // nothing lies above it: no other place is better for the others
		}
	}
	s.fail(key, last, lastRank)
	return none
}

// same reports whether two boxes may change places.
func (s *Search) same(a, b int32) bool {
	in := s.in
	return in.Lo[a] == in.Lo[b] && in.Hi[a] == in.Hi[b] && in.Size[a] == in.Size[b] &&
		s.least[a] == s.least[b] && in.Plain()
}

// below goes on after a box that was just placed, part by part if time falls apart there.
func (s *Search) below(left []int32, lo, hi int32, box int32) outcome {
	o := found
	if s.join(box, -1) {
		o = s.split(left, lo, hi)
	} else {
		o = s.place(left, lo, hi, s.at[box], s.rank[box])
	}
	if o != found {
		s.join(box, 1)
	}
	return o
}
