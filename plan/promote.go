package plan

import (
	"math"
	"math/rand/v2"
	"slices"
)

// promotion searches orders that no weights express: it descends, sees which
// boxes ended too high, moves those forward in the order by a random part of
// their rank, and descends again. A box that keeps suffering comes to the front
// soon. (Joslin and Clements, "Squeaky wheel" optimization, JAIR 1999.)
type promotion struct {
	order []int32
	keys  []rankKey // by rank
}

func newPromotion(s *search) *promotion {
	return &promotion{
		order: slices.Clone(s.rank.rank(s.p, Weights{Size: 1, Duration: 1})),
		keys:  make([]rankKey, len(s.p.ids)),
	}
}

// step places the piece by the current order and promotes what ended too high.
// The placement is carried to its end even if it is no better than the best:
// all who suffer are to be seen.
func (m *promotion) step(s *search, rng *rand.Rand) {
	s.used++
	top, _ := s.sky.run(m.order, math.MaxInt64)
	if top < s.best {
		s.keep("promoted", top, s.sky.offset)
	}
	high := s.goal + (top-s.goal)/2 // promoting all above the goal mixes up too many
	for rank, box := range m.order {
		key := float64(rank)
		if s.sky.offset[box]+s.p.size[box] > high {
			key *= 0.3 + 0.6*rng.Float64()
		}
		m.keys[rank] = rankKey{key, int32(rank), box}
	}
	sortKeys(m.keys)
	for rank, k := range m.keys {
		m.order[rank] = k.box
	}
}
