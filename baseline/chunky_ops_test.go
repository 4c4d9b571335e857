package baseline

import "stalloc/internal/mem"

func (m *chunky) Malloc(r mem.Bytes, stream mem.StreamID) (int, Place, bool) {
	m.events = processEvents(m.events, m.release)
	n := nround(&m.o, r)
	var b *cblock
	if n <= 1<<20 {
		return m.mallocSmall(r, stream)
	}
	n = (n + 1<<21 - 1) >> 21 << 21
	asz := n
	if n < 10<<20 {
		asz = 20 << 20
	}
	for _, try := range []func() *cblock{
		func() *cblock { return m.search(n, stream) },
		func() *cblock { return m.stitch(n, stream, 0) },
		func() *cblock { return m.segment(asz, stream) },
		func() *cblock {
			if !m.available(n, stream) {
				return nil
			}
			return m.segment(asz, stream)
		},
		func() *cblock { return m.stitch(n, stream, 1) },
		func() *cblock { m.flush(); m.stats.Retries++; return m.segment(asz, stream) },
		func() *cblock { return m.stitch(n, stream, 2) },
	} {
		if b = try(); b != nil {
			break
		}
	}
	if b == nil {
		m.stats.OOMs++
		return 0, Place{}, false
	}
	keep := int(n >> 21)
	if !b.stitched {
		if n < m.o.MaxSplit && len(b.chunks) > keep {
			m.split(b, keep)
		}
		for _, c := range b.chunks {
			setChunk(c, false)
		}
		b.used = len(b.chunks)
	}
	b.live = true
	b.asked, b.charge = r, n
	m.ids++
	m.taken[m.ids] = b
	return m.ids, Place{VM, b.addr}, true
}

// mallocSmall is the native algorithm, but the device and a flush are shared
// with the large pool.
func (m *chunky) mallocSmall(r mem.Bytes, stream mem.StreamID) (int, Place, bool) {
	n := nround(&m.o, r)
	grow := func() (ngap, bool) {
		m.small.o.Capacity = m.o.Capacity - (m.resident() - m.small.reserved())
		if m.o.Limit != 0 {
			m.small.o.Limit = max(m.o.Limit-(m.reserved()-m.small.reserved()), 1)
		}
		return m.small.grow(n, true, stream)
	}
	g, ok := m.small.search(n, true, stream)
	if !ok {
		if g, ok = grow(); !ok {
			m.flush()
			m.stats.Retries++
			g, ok = grow()
		}
	}
	if !ok {
		m.stats.OOMs++
		return 0, Place{}, false
	}
	id, at := m.small.place(g, n, r)
	m.ids++
	m.inSmall[m.ids] = id
	return m.ids, at, true
}

// search is the best fit among pBlocks and then among sBlocks that are free.
func (m *chunky) search(n mem.Bytes, stream mem.StreamID) *cblock {
	for _, b := range m.freePBlocks(stream) {
		if b.size() >= n {
			if n < m.o.MaxSplit && b.size() >= m.o.MaxSplit || n >= m.o.MaxSplit && b.size() >= n+m.o.NonSplitRounding {
				return nil
			}
			return b
		}
	}
	for _, s := range m.pick(true, stream, func(b *cblock) bool { return !b.live && b.allFree() }) {
		if s.size() >= n {
			if float64(s.size()) > float64(n)*m.o.ReuseLimit {
				return nil
			}
			m.reuse(s, int(n>>21))
			return s
		}
	}
	return nil
}

func (m *chunky) reuse(s *cblock, keep int) {
	var owners []*cblock
	for _, c := range s.chunks[:keep] {
		setChunk(c, false)
		known := false
		for _, o := range owners {
			known = known || o == c.owner
		}
		if !known {
			owners = append(owners, c.owner)
		}
	}
	for _, p := range owners {
		for {
			run := 1
			for run < len(p.chunks) && p.chunks[run].free == p.chunks[0].free {
				run++
			}
			p.live = !p.chunks[0].free
			p.asked, p.charge = 0, 0
			if run == len(p.chunks) {
				break
			}
			p = m.split(p, run)
		}
	}
	s.used = keep
}

func (m *chunky) stitch(n mem.Bytes, stream mem.StreamID, stage int) *cblock {
	fs := m.freePBlocks(stream)
	var total mem.Bytes
	for _, b := range fs {
		total += b.size()
	}
	if stage < m.o.DefragLevel || n < m.o.FragLimit || len(fs) < 2 || total < n {
		return nil
	}
	s := &cblock{addr: m.vm, stream: stream, stitched: true, live: true}
	m.vm += mem.Offset(n)
	for i := len(fs) - 1; s.size() < n; i-- {
		p := fs[i]
		if short := int((n - s.size()) >> 21); short < len(p.chunks) {
			m.split(p, short)
		}
		p.live = true
		p.asked, p.charge = 0, 0
		for _, c := range p.chunks {
			setChunk(c, false)
			c.mapped = append(c.mapped, s)
		}
		s.chunks = append(s.chunks, p.chunks...)
	}
	s.used = len(s.chunks)
	m.blocks = append(m.blocks, s)
	m.extra++
	if m.virtual += n; m.virtual > m.o.AutoGC {
		m.dropIdle()
	}
	return s
}

func (m *chunky) segment(asz mem.Bytes, stream mem.StreamID) *cblock {
	if m.o.Limit != 0 && m.reserved()+asz > m.o.Limit || m.resident()+asz > m.o.Capacity {
		return nil
	}
	b := &cblock{addr: m.vm, stream: stream}
	m.vm += mem.Offset(asz)
	for range asz >> 21 {
		b.chunks = append(b.chunks, &cchunk{free: true, owner: b})
	}
	m.blocks = append(m.blocks, b)
	m.current() // for the peak
	return b
}
