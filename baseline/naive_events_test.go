package baseline

import (
	"slices"
	"sort"

	"stalloc/internal/mem"
)

func (m *naive) Free(id int) {
	t := m.taken[id]
	if t.deferred {
		m.events = append(m.events, &nevent{id: id})
		t.waiting = true
	}
	for _, s := range t.extra {
		m.events = append(m.events, &nevent{id: id, stream: s, queued: true})
		t.waiting = true
	}
	if !t.waiting {
		m.release(id)
	}
}

func (m *naive) release(id int) {
	t := m.taken[id]
	delete(m.taken, id)
	t.seg.in = slices.DeleteFunc(t.seg.in, func(u *ntaken) bool { return u == t })
	for _, g := range m.gaps(t.seg) {
		if g.addr <= t.addr && t.addr < g.addr+mem.Offset(g.size) {
			m.born[g.addr] = m.searches[pindex(t.seg.small)]
		}
	}
}

func (m *naive) Record(id int, s mem.StreamID) {
	t := m.taken[id]
	for _, e := range append([]mem.StreamID{t.seg.stream}, t.extra...) {
		if e == s {
			return
		}
	}
	t.extra = append(t.extra, s)
}

func (m *naive) Defer(id int) { m.taken[id].deferred = true }

func (m *naive) Complete(id int) { completeEvents(m.events, id) }

func completeEvents(events []*nevent, id int) {
	for i, e := range events {
		if e.id != id {
			continue
		}
		e.passed = true
		for _, before := range events[:i] {
			if e.queued && before.queued && before.stream == e.stream {
				before.passed = true
			}
		}
	}
}

func (m *naive) Sync() {
	for _, e := range m.events {
		e.passed = true
	}
}

func (m *naive) process() { m.events = processEvents(m.events, m.release) }

func processEvents(events []*nevent, release func(int)) []*nevent {
	left := map[int]int{}
	var done []int
	keep := []*nevent{}
	for _, e := range events {
		if e.passed {
			done = append(done, e.id)
			continue
		}
		left[e.id]++
		keep = append(keep, e)
	}
	sort.Ints(done)
	for i, id := range done {
		if left[id] == 0 && (i == 0 || done[i-1] != id) {
			release(id)
		}
	}
	return keep
}
