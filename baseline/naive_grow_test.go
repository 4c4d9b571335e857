package baseline

import "stalloc/internal/mem"

func (m *naive) grow(n mem.Bytes, small bool, stream mem.StreamID) (ngap, bool) {
	asz := nsegment(n)
	if m.o.Limit != 0 && m.reserved()+asz > m.o.Limit {
		return ngap{}, false
	}
	if m.exp {
		return m.extend(n, small, stream)
	}
	if m.reserved()+asz > m.o.Capacity {
		return ngap{}, false
	}
	s := &nseg{base: m.next, size: asz, small: small, stream: stream}
	if small || m.o.Ascending {
		m.next += mem.Offset(asz)
	} else {
		m.top -= mem.Offset(asz)
		s.base = 1<<60 + m.top
	}
	m.segs = append(m.segs, s)
	return ngap{s, s.base, asz, true}, true
}

// extend finds the lowest run of gaps that is long enough and maps it, one
// unmapped gap after the other.
func (m *naive) extend(n mem.Bytes, small bool, stream mem.StreamID) (ngap, bool) {
	s, start := m.run(n, small, stream)
	unit := m.unit(small)
	if s == nil {
		s = &nseg{base: m.next, small: small, stream: stream}
		pages := (max(m.o.Capacity+m.o.Capacity/8, n) + unit - 1) / unit
		s.size, s.mapped = pages*unit, make([]bool, pages)
		m.next += mem.Offset(s.size)
		m.segs = append(m.segs, s)
		start = s.base
	}
	for {
		var have mem.Bytes
		var hole *ngap
		for _, g := range m.gaps(s) {
			if g.addr == start && g.mapped {
				have = g.size
			}
			if g.addr == start+mem.Offset(have) && !g.mapped {
				hole = &g
				break
			}
		}
		if have >= n {
			return ngap{s, start, have, true}, true
		}
		pages := (min(n-have, hole.size) + unit - 1) / unit
		if m.reserved()+pages*unit > m.o.Capacity {
			return ngap{}, false
		}
		first := mem.Bytes(hole.addr-s.base) / unit
		for p := first; p < first+pages; p++ {
			s.mapped[p] = true
		}
		m.born[start] = m.searches[pindex(small)]
	}
}

func (m *naive) run(n mem.Bytes, small bool, stream mem.StreamID) (*nseg, mem.Offset) {
	for _, s := range m.segs { // segments are made at ascending addresses
		if s.small != small || s.stream != stream {
			continue
		}
		gs := m.gaps(s)
		for i, g := range gs {
			if g.mapped {
				continue
			}
			first := i
			if i > 0 && gs[i-1].mapped && gs[i-1].addr+mem.Offset(gs[i-1].size) == g.addr {
				first = i - 1
			}
			var sum mem.Bytes
			for j := first; j < len(gs) && gs[j].addr == gs[first].addr+mem.Offset(sum); j++ {
				if sum += gs[j].size; sum >= n {
					return s, gs[first].addr
				}
			}
		}
	}
	return nil, 0
}

func (m *naive) drop(s *nseg) {
	for i := range m.segs {
		if m.segs[i] == s {
			m.segs = append(m.segs[:i:i], m.segs[i+1:]...)
			return
		}
	}
}

func (m *naive) available(n mem.Bytes, small bool, stream mem.StreamID) bool {
	if m.exp || m.o.MaxSplit == unlimited {
		return false
	}
	need := max(n, m.o.MaxSplit)
	fs := m.free(small, stream)
	for _, g := range fs {
		if g.size >= need {
			m.drop(g.seg)
			return true
		}
	}
	var got mem.Bytes
	for i := len(fs) - 1; i >= 0 && fs[i].size >= m.o.MaxSplit && got < need; i-- {
		got += fs[i].size
		m.drop(fs[i].seg)
	}
	return got >= need
}

func (m *naive) collect() {
	if m.exp || m.o.GCThreshold == 0 || m.o.Limit == 0 {
		return
	}
	target := float64(m.reserved()) - float64(mem.Bytes(m.o.GCThreshold*float64(m.o.Limit)))
	for got := 0.0; got < target; {
		var old []ngap
		total := 0.0
		age := func(g ngap) float64 { return float64(m.searches[1] - m.born[g.addr]) }
		for _, s := range m.segs {
			for _, g := range m.gaps(s) {
				if !s.small && g.whole() {
					old = append(old, g)
					total += age(g)
				}
			}
		}
		if len(old) == 0 {
			return
		}
		threshold := total / float64(len(old))
		for _, g := range old {
			if age(g) >= threshold {
				got += float64(g.size)
				m.drop(g.seg)
			}
		}
	}
}

// Empty is empty_cache, and the flush before a retry.
func (m *naive) Empty() {
	m.Sync()
	m.process()
	for _, s := range append([]*nseg(nil), m.segs...) {
		unmappedSome := false
		for _, g := range m.gaps(s) {
			if !m.exp {
				if g.whole() {
					m.drop(s)
				}
				continue
			}
			p := mem.Offset(m.unit(s.small))
			for page := range s.mapped {
				from := s.base + mem.Offset(page)*p
				if g.mapped && from >= g.addr && from+p <= g.addr+mem.Offset(g.size) {
					s.mapped[page] = false
					unmappedSome = true
				}
			}
		}
		if gs := m.gaps(s); unmappedSome && len(gs) == 1 && gs[0].whole() && !gs[0].mapped {
			m.drop(s)
		}
	}
}
