package baseline

import "stalloc/internal/mem"

func (m *naive) Malloc(r mem.Bytes, stream mem.StreamID) (int, Place, bool) {
	m.process()
	n := nround(&m.o, r)
	small := n <= 1<<20
	find := func() (ngap, bool) {
		g, ok := m.grow(n, small, stream)
		m.current() // what was taken counts for the peak, even if it did not suffice
		return g, ok
	}
	g, ok := m.search(n, small, stream)
	if !ok {
		m.collect()
		if g, ok = find(); !ok && m.available(n, small, stream) {
			g, ok = find()
		}
		if !ok {
			m.Empty()
			m.stats.Retries++
			g, ok = find()
		}
	}
	if !ok {
		m.stats.OOMs++
		return 0, Place{}, false
	}
	id, at := m.place(g, n, r)
	return id, at, true
}

// place takes n bytes, or more, from the front of a free block.
func (m *naive) place(g ngap, n, r mem.Bytes) (int, Place) {
	small := g.seg.small
	size := n
	rest := g.size - n
	cut := rest >= 512
	if !small && !m.exp {
		cut = rest > 1<<20 && n < m.o.MaxSplit
	}
	if !cut {
		size = g.size
	} else {
		m.born[g.addr+mem.Offset(n)] = m.searches[pindex(small)]
	}
	m.ids++
	m.taken[m.ids] = &ntaken{seg: g.seg, addr: g.addr, size: size, asked: r}
	g.seg.in = append(g.seg.in, m.taken[m.ids])
	space := RT
	if m.exp {
		space = VM
	}
	return m.ids, Place{space, g.addr}
}

func pindex(small bool) int {
	if small {
		return 0
	}
	return 1
}

func (m *naive) search(n mem.Bytes, small bool, stream mem.StreamID) (ngap, bool) {
	m.searches[pindex(small)]++
	fit := m.free(small, stream)
	for len(fit) > 0 && fit[0].size < n {
		fit = fit[1:]
	}
	if len(fit) == 0 {
		return ngap{}, false
	}
	if m.exp {
		for len(fit) > 1 && m.reach(fit[1]) < m.reach(fit[0]) {
			fit = fit[1:]
		}
	}
	g := fit[0]
	refused := n < m.o.MaxSplit && g.size >= m.o.MaxSplit || n >= m.o.MaxSplit &&
		g.size >= n+m.o.NonSplitRounding
	return g, !refused
}

// reach is the size of a free block and the unmapped one behind it.
func (m *naive) reach(g ngap) mem.Bytes {
	for _, h := range m.gaps(g.seg) {
		if !h.mapped && h.addr == g.addr+mem.Offset(g.size) {
			return g.size + h.size
		}
	}
	return g.size
}
