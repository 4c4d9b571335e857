package residency

import "sort"

// comeBack schedules the copies back: in the order of need, each as soon as it is safe. Where one
// is not back when it is needed, the program waits. False: there is no room for one.
func (s *schedule) comeBack() bool {
	t := s.buildTree()
	free := -mostTime // the link's direction back
	for _, i := range s.come {
		if s.out[i] == absent {
			continue
		}
		x := &s.parts[i]
		hi := s.placeOf[x.until]
		first := max(s.gone[i], t.last(s.gone[i], hi, s.limit-x.size)+1)
		if first == hi {
			return false
		}
		from := max(free, s.placeAt(first))
		// It is taken at the last place that has begun by then.
		at := first + sort.Search(hi-first, func(d int) bool {
			return s.placeAt(first+d) > from
		}) - 1
		t.add(at, hi, x.size)
		s.returned[i], free = from, from+x.back
		needed := s.at[x.until] + s.shift(hi)
		if free > needed {
			s.wait(hi, x.until, free-needed)
		}
	}
	return true
}

// buildTree is the load by place, without returns.
func (s *schedule) buildTree() *tree {
	loads := s.loads[:0]
	for _, p := range s.places {
		loads = append(loads, p.load)
	}
	s.loads = loads
	return newTree(loads)
}

// placeAt is when a place begins, with all waits.
func (s *schedule) placeAt(p int) Nanos { return s.places[p].at + s.shift(p) }

// shift is what the program waits for copies back until a place, with what it waits before that.
func (s *schedule) shift(p int) Nanos {
	n := sort.Search(len(s.waits), func(i int) bool { return s.waits[i].place > p })
	if n == 0 {
		return 0
	}
	return s.waits[n-1].sum
}

// shiftAt is shift at a time: behind a wait that begins then.
func (s *schedule) shiftAt(at Nanos) Nanos {
	n := sort.Search(len(s.waits), func(i int) bool { return s.at[s.waits[i].moment] > at })
	if n == 0 {
		return 0
	}
	return s.waits[n-1].sum
}

// wait lets the program wait before a moment, longer than so far.
func (s *schedule) wait(place int, moment int32, d Nanos) {
	s.late += d
	if n := len(s.waits); n > 0 && s.waits[n-1].place == place {
		s.waits[n-1].sum = s.late
		return
	}
	s.waits = append(s.waits, wait{place, moment, s.late})
}

// waited is how long the program waits in all.
func (s *schedule) waited() Nanos {
	last := len(s.times) - 1
	if last < 0 {
		return 0
	}
	return s.at[last] - s.times[last] - (s.at[0] - s.times[0]) + s.late
}
