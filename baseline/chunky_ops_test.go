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
	large := m.resident() - m.small.reserved()
	accounted := m.reserved() - m.small.reserved()
	try := func() (int, Place, bool) {
		m.small.o.Capacity = m.o.Capacity - large
		if m.o.Limit != 0 {
			m.small.o.Limit = max(m.o.Limit-accounted, 1)
		}
		return m.small.Malloc(r, stream)
	}
	id, at, ok := try()
	if m.small.stats.Retries > 0 {
		// The flush takes the large pool along, and what it returns may be what
		// the small pool was short of.
		m.stats.Retries++
		m.flush()
		if !ok {
			large = m.resident() - m.small.reserved()
			accounted = m.reserved() - m.small.reserved()
			if id, at, ok = try(); !ok {
				m.stats.OOMs++
			}
		}
		m.small.stats.Retries, m.small.stats.OOMs = 0, 0
	}
	if !ok {
		return 0, Place{}, false
	}
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

func (m *chunky) dropIdle() {
	for _, s := range append([]*cblock(nil), m.blocks...) {
		if s.stitched && !s.live {
			m.unstitch(s)
		}
	}
}

func (m *chunky) returnSegment(p *cblock) {
	for _, c := range p.chunks {
		for _, s := range append([]*cblock(nil), c.mapped...) {
			if s.doomed = s.live; !s.live {
				m.unstitch(s)
			}
		}
	}
	m.forget(p)
}

func (m *chunky) available(n mem.Bytes, stream mem.StreamID) bool {
	if m.o.MaxSplit == unlimited {
		return false
	}
	need := max(n, m.o.MaxSplit)
	fs := m.pick(false, stream, func(b *cblock) bool { return !b.live && b.prev == nil && b.next == nil })
	for _, b := range fs {
		if b.size() >= need {
			m.returnSegment(b)
			return true
		}
	}
	var got mem.Bytes
	for i := len(fs) - 1; i >= 0 && fs[i].size() >= m.o.MaxSplit && got < need; i-- {
		got += fs[i].size()
		m.returnSegment(fs[i])
	}
	return got >= need
}

func (m *chunky) flush() {
	m.Sync()
	m.events = processEvents(m.events, m.release)
	for _, b := range append([]*cblock(nil), m.blocks...) {
		if !b.stitched && !b.live && b.prev == nil && b.next == nil {
			m.returnSegment(b)
		}
	}
	m.small.Empty()
}

func (m *chunky) Empty() {
	m.flush()
	m.dropIdle()
}

func (m *chunky) release(id int) {
	if small, ok := m.inSmall[id]; ok {
		m.small.release(small)
		delete(m.inSmall, id)
		return
	}
	b := m.taken[id]
	delete(m.taken, id)
	b.waiting, b.charge, b.asked = false, 0, 0
	b.extra, b.deferred = nil, false
	used := b.chunks[:b.used]
	b.used = 0
	var whole []*cblock
	if !b.stitched {
		whole = append(whole, b)
	}
	for _, c := range used {
		setChunk(c, true)
		if b.stitched && c.owner.live && c.owner.allFree() {
			whole = append(whole, c.owner)
			c.owner.live = false
		}
	}
	b.live = false
	if b.doomed {
		m.unstitch(b)
	}
	for _, p := range whole {
		if p.prev != nil && !p.prev.live {
			p = p.prev
			m.join(p, p.next)
		}
		if p.next != nil && !p.next.live {
			m.join(p, p.next)
		}
	}
}

func (m *chunky) Free(id int) {
	if small, ok := m.inSmall[id]; ok {
		// The small pool's model keeps the blocks, this one all the events.
		t := m.small.taken[small]
		if t.waiting = m.wait(id, t.deferred, t.extra); !t.waiting {
			m.release(id)
		}
		return
	}
	b := m.taken[id]
	if b.waiting = m.wait(id, b.deferred, b.extra); !b.waiting {
		m.release(id)
	}
}

func (m *chunky) wait(id int, deferred bool, extra []mem.StreamID) bool {
	if deferred {
		m.events = append(m.events, &nevent{id: id})
	}
	for _, s := range extra {
		m.events = append(m.events, &nevent{id: id, stream: s, queued: true})
	}
	return deferred || len(extra) > 0
}

func (m *chunky) Record(id int, s mem.StreamID) {
	if small, ok := m.inSmall[id]; ok {
		m.small.Record(small, s)
		return
	}
	b := m.taken[id]
	for _, e := range append([]mem.StreamID{b.stream}, b.extra...) {
		if e == s {
			return
		}
	}
	b.extra = append(b.extra, s)
}

func (m *chunky) Defer(id int) {
	if small, ok := m.inSmall[id]; ok {
		m.small.Defer(small)
		return
	}
	m.taken[id].deferred = true
}

func (m *chunky) Complete(id int) { completeEvents(m.events, id) }

func (m *chunky) Sync() {
	for _, e := range m.events {
		e.passed = true
	}
}
