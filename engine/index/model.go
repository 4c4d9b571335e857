package index

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"stalloc/internal/invariants"
	"stalloc/internal/mem"
)

// Model is an Index that is as simple as it can be: the gaps of an arena in order of size, and in
// order of address.
type Model struct {
	arenas []arena
	blocks map[Unit]Block
	total  Total
}

type arena struct {
	ArenaStats
	bySize, byPlace []Gap
}

// NewModel returns an empty one.
func NewModel() *Model { return &Model{blocks: map[Unit]Block{}} }

func bySize(a, b Gap) int {
	return cmp.Or(cmp.Compare(a.Size(), b.Size()), cmp.Compare(a.Lo, b.Lo))
}
func byPlace(a, b Gap) int { return cmp.Compare(a.Lo, b.Lo) }

func (m *Model) arena(n uint32) *arena {
	for int(n) >= len(m.arenas) {
		m.arenas = append(m.arenas, arena{})
	}
	return &m.arenas[n]
}

func (s *arena) add(g Gap) {
	if g.Size() == 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(s.bySize, g, bySize)
	s.bySize = slices.Insert(s.bySize, i, g)
	i, _ = slices.BinarySearchFunc(s.byPlace, g, byPlace)
	s.byPlace = slices.Insert(s.byPlace, i, g)
	s.Free += g.Size()
}

func (s *arena) drop(g Gap) {
	i, _ := slices.BinarySearchFunc(s.bySize, g, bySize)
	s.bySize = slices.Delete(s.bySize, i, i+1)
	i, _ = slices.BinarySearchFunc(s.byPlace, g, byPlace)
	s.byPlace = slices.Delete(s.byPlace, i, i+1)
	s.Free -= g.Size()
}

func (m *Model) Fit(n uint32, size Unit) Gap {
	s := m.arena(n)
	if i, _ := slices.BinarySearchFunc(s.bySize, Gap{0, size}, bySize); i < len(s.bySize) {
		return s.bySize[i]
	}
	return Gap{}
}

func (m *Model) Gap(n uint32, at Unit) Gap {
	s := m.arena(n)
	i, _ := slices.BinarySearchFunc(s.byPlace, Gap{Lo: at + 1}, byPlace)
	if i > 0 && s.byPlace[i-1].Hi > at {
		return s.byPlace[i-1]
	}
	return Gap{}
}

func (m *Model) Gaps(n uint32) iter.Seq[Gap] { return slices.Values(m.arena(n).bySize) }

func (m *Model) Take(n uint32, lo, hi Unit) {
	g, s := m.Gap(n, lo), m.arena(n)
	if invariants.Enabled && (hi > g.Hi || hi <= lo) {
		panic(fmt.Sprintf("index: [%d, %d) of arena %d is not free", lo, hi, n))
	}
	s.drop(g)
	s.add(Gap{g.Lo, lo})
	s.add(Gap{hi, g.Hi})
}

func (m *Model) Give(n uint32, lo, hi Unit) {
	s := m.arena(n)
	i, _ := slices.BinarySearchFunc(s.byPlace, Gap{Lo: lo}, byPlace)
	if i < len(s.byPlace) && s.byPlace[i].Lo == hi {
		hi = s.byPlace[i].Hi
		s.drop(s.byPlace[i])
	}
	if i > 0 && s.byPlace[i-1].Hi == lo {
		lo = s.byPlace[i-1].Lo
		s.drop(s.byPlace[i-1])
	}
	s.add(Gap{lo, hi})
}

func (m *Model) Put(b Block) {
	if !b.InView {
		m.Take(b.Arena, b.At, b.At+b.Size)
	}
	s, t := m.arena(b.Arena), &m.total
	b.Step, s.Used = t.Steps, t.Steps
	m.blocks[b.At] = b
	s.Load += b.Size
	s.Peak = max(s.Peak, s.Load)
	t.Blocks++
	t.Load += b.Size
	t.PeakLoad = max(t.PeakLoad, t.Load)
}

func (m *Model) Drop(at Unit) {
	b := m.blocks[at]
	m.Mark(at, Fast)
	delete(m.blocks, at)
	if !b.InView {
		m.Give(b.Arena, at, at+b.Size)
	}
	s := m.arena(b.Arena)
	s.Load -= b.Size
	s.Used = m.total.Steps
	m.total.Load -= b.Size
	m.total.Blocks--
}

func (m *Model) Mark(at Unit, state State) {
	b := m.blocks[at]
	if b.State == Pending {
		m.total.Pending -= b.Size
		m.total.Load += b.Size
	}
	if state == Pending {
		m.total.Pending += b.Size
		m.total.Load -= b.Size
	}
	b.State = state
	m.blocks[at] = b
}

func (m *Model) Block(at Unit) (Block, bool) {
	b, ok := m.blocks[at]
	return b, ok
}

func (m *Model) Blocks() iter.Seq[Block] {
	return func(yield func(Block) bool) {
		for _, b := range m.blocks {
			if !yield(b) {
				return
			}
		}
	}
}

func (m *Model) Room(n uint32) ArenaStats { return m.arena(n).ArenaStats }
func (m *Model) Total() Total             { return m.total }

func (m *Model) Assign(heap uint32, _ mem.StreamID, _ uint64) {
	for kind := range uint32(2) {
		m.arena(2*heap + kind).ArenaStats = ArenaStats{}
	}
}

func (m *Model) EndStep() { m.total.Steps++ }
