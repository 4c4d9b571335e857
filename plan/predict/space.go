package predict

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
)

// Space is memory without holes, in order. What has ended is free.
type Space []Obstacle

// NewSpace returns the space of gaps, which have ended, and blocks. What is neither is in use for
// good.
func NewSpace(known []Obstacle) (s Space) {
	slices.SortFunc(known, func(a, b Obstacle) int { return cmp.Compare(a.From, b.From) })
	at := mem.Offset(0)
	for _, x := range known {
		if x.From < at { // a stitched block lies elsewhere
			continue
		}
		if x.From > at {
			s = append(s, Obstacle{From: at, To: x.From, Until: Never})
		}
		s = append(s, x)
		at = x.To
	}
	return s
}

// Serve does what the range will do with a request, and returns where its block will lie: as
// wished, or in the smallest gap, or nobody knows.
func (s *Space) Serve(p Position, wish mem.Offset) mem.Offset {
	all, best, size := (*s)[:0], -1, mem.Offset(p.Size)
	piece := func(from, to mem.Offset, until mem.Tick) Obstacle { return Obstacle{From: from, To: to, Until: until} }
	for _, x := range *s {
		if n := len(all); x.Until <= p.Begin && n > 0 && all[n-1].Until <= p.Begin {
			all[n-1].To = x.To
		} else {
			all = append(all, x)
		}
	}
	*s = all
	for i, x := range all {
		switch has := x.To - x.From; {
		case x.Until > p.Begin || has < size || size == 0: // it does not fit
		case x.From <= wish && wish+size <= x.To:
			*s = slices.Replace(all, i, i+1, piece(x.From, wish, 0), piece(wish, wish+size, p.End), piece(wish+size, x.To, 0))
			return wish
		case best < 0 || has < all[best].To-all[best].From:
			best = i
		}
	}
	if best < 0 {
		return Nowhere
	}
	return s.Serve(p, all[best].From)
}
