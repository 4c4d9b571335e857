package exact

import "stalloc/plan/solve/dsa"

// What placing a box means for the others, and the way back.

func (s *Search) set(to *int64, value int64) {
	s.trail = append(s.trail, change{to, *to})
	*to = value
}

func (s *Search) takeBack(box int32, mark int) {
	for i := len(s.trail) - 1; i >= mark; i-- {
		*s.trail[i].to = s.trail[i].was
	}
	s.trail = s.trail[:mark]
	s.at[box] = unplaced
	for _, p := range s.pieces[box] {
		for t := p.Lo; t < p.Hi; t++ {
			s.rest[t] += p.To - p.From
		}
	}
}

// put places a box at its lowest offset, and reports whether no unplaced box lives with it, and
// whether all others may still fit.
func (s *Search) put(box int32, lo, hi int32) (hatless, ok bool) {
	at := s.least[box]
	s.at[box] = at
	s.node++
	s.touched = s.touched[:0]
	s.looked = int64(int(hi-lo) + len(s.overlaps[box]))
	for _, p := range s.pieces[box] {
		for t := p.Lo; t < p.Hi; t++ {
			s.set(&s.floor[t], at+p.To)
			s.rest[t] -= p.To - p.From
		}
	}
	hatless, ok = true, true
	for _, o := range s.overlaps[box] {
		if s.at[o.box] != unplaced {
			continue
		}
		hatless = false
		least := s.in.Fits(o.box, at+o.rise)
		if s.least[o.box] >= least {
			continue
		}
		s.set(&s.least[o.box], least)
		if least+s.in.Size[o.box] > s.capacity || s.in.Pin != nil && s.in.Pin[o.box] != dsa.Free &&
			s.in.Pin[o.box] < least {
			return hatless, false
		}
		for _, p := range s.pieces[o.box] {
			s.looked += int64(p.Hi - p.Lo)
			for t := p.Lo; t < p.Hi; t++ {
				// If all that is left fits above it, nothing has changed for the section.
				if least+p.From+s.rest[t] > s.capacity && s.stamp[t] != s.node {
					s.stamp[t] = s.node
					s.touched = append(s.touched, t)
				}
			}
		}
	}
	return hatless, at+s.in.Size[box] <= s.capacity && s.may(at, lo, hi)
}

// may reports whether the sections can hold what is not placed, none of it below an offset.
func (s *Search) may(at int64, lo, hi int32) bool {
	for t := lo; t < hi; t++ {
		if max(at, s.floor[t])+s.rest[t] > s.capacity {
			return false
		}
	}
	for _, t := range s.touched {
		if s.rest[t] > 0 && !s.sectionFits(t, at) {
			return false
		}
	}
	return true
}

// sectionFits stacks what is not placed of a section in the order in which it may begin, which no
// placement does lower.
func (s *Search) sectionFits(t int32, at int64) bool {
	s.queue = s.queue[:0]
	for _, box := range s.sections[t] {
		if s.at[box] != unplaced {
			continue
		}
		r := release{s.least[box], s.in.Size[box]}
		if s.in.Pieces != nil {
			for _, p := range s.pieces[box] {
				if p.Lo <= t && t < p.Hi {
					r = release{r.from + p.From, p.To - p.From}
				}
			}
		}
		i := len(s.queue)
		s.queue = append(s.queue, r)
		for ; i > 0 && s.queue[i-1].from > r.from; i-- {
			s.queue[i] = s.queue[i-1]
		}
		s.queue[i] = r
		s.looked += int64(len(s.queue) - i)
	}
	end := int64(0)
	if s.in.Pieces == nil {
		end = at // none lies lower
	}
	for _, r := range s.queue {
		end = max(end, r.from) + r.height
	}
	return end <= s.capacity
}
