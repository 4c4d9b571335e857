package paper

import (
	"stalloc/baseline"
	"stalloc/internal/mem"
)

// naive is the allocator in a few slow lines: every byte of the region is looked at by name, in
// grains, and the cache is package baseline's own, which has a model there.
type naive struct {
	plan     *Plan
	cache    *baseline.Native
	grains   []bool // of the region: taken
	cells    []bool
	order    []int // cells that were freed, the last one last
	live     map[baseline.Block]*naiveBlock
	next     baseline.Block
	requests int
	step     int
	ordinal  int
	left     bool
}

type naiveBlock struct {
	at, size mem.Bytes
	cell     bool
	stream   mem.StreamID
	freed    bool
	used     bool
}

func newNaive(o baseline.Options, plan *Plan) *naive {
	taken := plan.Region + plan.Cells
	o.Capacity -= taken
	if o.Limit > 0 {
		o.Limit -= taken
	}
	return &naive{plan: plan, cache: baseline.NewNative(o),
		grains: make([]bool, plan.Region/mem.Grain), cells: make([]bool, plan.Cells/cellSize),
		live: map[baseline.Block]*naiveBlock{}, next: baseline.None}
}

func (m *naive) free(from, to mem.Bytes) bool {
	for g := from / mem.Grain; g < to/mem.Grain; g++ {
		if m.grains[g] {
			return false
		}
	}
	return true
}

func (m *naive) set(from, to mem.Bytes, taken bool) {
	for g := from / mem.Grain; g < to/mem.Grain; g++ {
		m.grains[g] = taken
	}
}

// malloc serves a request: from the region or a cell, at an offset there, or from the cache.
func (m *naive) malloc(size mem.Bytes, stream mem.StreamID) (baseline.Block, error) {
	b := &naiveBlock{size: mem.Round(size), stream: stream}
	at, ok := m.find(b, size)
	m.requests++
	if !ok {
		return m.cache.Malloc(size, stream)
	}
	b.at = at
	m.next--
	m.live[m.next] = b
	return m.next, nil
}

func (m *naive) find(b *naiveBlock, size mem.Bytes) (mem.Bytes, bool) {
	main := m.plan.ignoring || b.stream == m.plan.stream
	if size <= cellSize {
		b.cell = true
		return m.cell(main)
	}
	if m.left && main {
		return m.smallest(idle{{0, mem.Offset(m.plan.Region)}}, b.size)
	}
	entries, which := m.plan.head, 0
	if m.step > 0 {
		entries, which = m.plan.step, 1
	}
	if m.requests < len(m.plan.modules) && m.plan.modules[m.requests] >= 0 {
		if !main {
			return 0, false
		}
		return m.smallest(m.plan.idle[which][m.plan.modules[m.requests]], b.size)
	}
	m.ordinal++
	if m.ordinal > len(entries) {
		return 0, false
	}
	e := entries[m.ordinal-1]
	at := mem.Bytes(e.at)
	if e.at == nowhere || e.size != size || !m.plan.ignoring && e.stream != b.stream ||
		!m.free(at, at+b.size) {
		return 0, false
	}
	m.set(at, at+b.size, true)
	return at, true
}

func (m *naive) cell(main bool) (mem.Bytes, bool) {
	if !main {
		return 0, false
	}
	i := -1
	if n := len(m.order); n > 0 {
		i, m.order = m.order[n-1], m.order[:n-1]
	} else {
		for k, taken := range m.cells {
			if !taken {
				i = k
				break
			}
		}
	}
	if i < 0 {
		return 0, false
	}
	m.cells[i] = true
	return mem.Bytes(i) * cellSize, true
}

// smallest looks at every stretch of free grains within each interval.
func (m *naive) smallest(within idle, size mem.Bytes) (mem.Bytes, bool) {
	best, room := mem.Bytes(-1), mem.Bytes(0)
	for _, w := range within {
		for from := mem.Bytes(w.from); from < mem.Bytes(w.to); from += mem.Grain {
			if from > mem.Bytes(w.from) && m.free(from-mem.Grain, from) {
				continue // inside a stretch
			}
			to := from
			for to < mem.Bytes(w.to) && m.free(to, to+mem.Grain) {
				to += mem.Grain
			}
			if to-from >= size && (best < 0 || to-from < room) {
				best, room = from, to-from
			}
		}
	}
	if best >= 0 {
		m.set(best, best+size, true)
	}
	return best, best >= 0
}

func (m *naive) end(h baseline.Block) {
	b := m.live[h]
	delete(m.live, h)
	if b.cell {
		m.cells[b.at/cellSize] = false
		m.order = append(m.order, int(b.at/cellSize))
		return
	}
	m.set(b.at, b.at+b.size, false)
}

// active is the sum of all blocks, and reserved what lies beside them, too.
func (m *naive) active() mem.Bytes {
	sum := m.cache.Stats().Active
	for _, b := range m.live {
		sum += b.size
	}
	return sum
}
