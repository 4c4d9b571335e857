package exact

import (
	"cmp"
	"slices"
)

// Order says which of the boxes that may lie at one offset is tried first: the one with the largest
// first feature, of equals the second, and so on.
type Order []feature

type feature int

const (
	width    feature = iota // ticks of its life
	size                    // bytes
	area                    // both multiplied
	overlaps                // how many boxes live with it
	// the largest sum of what is not placed, over its life, when its part began
	total
	length // of its life in the problem's own time
	numFeatures
)

func (s *Search) measure() {
	for f := range s.features {
		s.features[f] = make([]int64, len(s.at))
	}
	for i := range s.at {
		s.features[width][i] = int64(s.in.Hi[i] - s.in.Lo[i])
		s.features[length][i] = s.in.Length[i]
		s.features[size][i] = s.in.Size[i]
		s.features[area][i] = s.in.Size[i] * s.in.Length[i]
		s.features[overlaps][i] = int64(len(s.overlaps[i]))
	}
}

// sort ranks the boxes of a part.
func (s *Search) sort(part []int32) {
	for _, box := range part {
		most := int64(0)
		for t := s.in.Lo[box]; t < s.in.Hi[box]; t++ {
			most = max(most, s.rest[t])
		}
		s.features[total][box] = most
	}
	slices.SortFunc(part, func(a, b int32) int {
		for _, f := range s.order {
			if c := cmp.Compare(s.features[f][b], s.features[f][a]); c != 0 {
				return c
			}
		}
		return cmp.Compare(a, b)
	})
	for r, box := range part {
		s.set(&s.rank[box], int64(r))
	}
}
