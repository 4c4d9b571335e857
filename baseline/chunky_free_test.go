package baseline

import "stalloc/internal/mem"

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
