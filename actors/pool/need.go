package pool

import (
	"slices"

	"stalloc/internal/mem"
)

// How much of the closed regions has to be away: what was short in the last uses, and a margin.

// learn records how much of the closed regions had to be away since a region was closed: by how
// much they and everything else exceed what may be held.
func (p *Pool) learn(m *moved) {
	n := mem.Bytes(0)
	if most := p.MostHeld(); most > 0 {
		n = max(m.wanted-most, 0)
	}
	copy(m.lately[1:], m.lately[:])
	m.lately[0] = n
}

// out returns how much of regions is away, and how much is leaving.
func (p *Pool) out() (away, leaving mem.Bytes) {
	for _, m := range p.moved {
		_, some, leaves := m.Size()
		away, leaving = away+some, leaving+leaves
	}
	return away, leaving
}

// shortAfter returns how much of the closed regions has to leave after a region was closed. While
// more follow, that is what those lack that are away: unmapping what has left would delay them.
func (p *Pool) shortAfter(m *moved, more bool) mem.Bytes {
	away, leaving := p.out()
	n := slices.Max(m.lately[:])
	n += n/needMargin - away - leaving
	if more {
		n = min(n, away-leaving-max(p.MostHeld()-p.reserved(), 0))
	}
	return n
}

// needMargin is the fraction by which more leaves than was needed lately: a request that is short
// all the same waits for a copy, and perhaps for host memory to be pinned.
const needMargin = 8
