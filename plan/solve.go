package plan

import (
	"sort"

	"stalloc/internal/mem"
)

// Solve places the buffers of b.
func Solve(b []Buffer, o Options) Solution {
	s := Solution{Offsets: make([]mem.Offset, len(b)), LowerBound: LowerBound(b), Order: "first fit by size"}
	order := make([]int, 0, len(b))
	for i := range b {
		if !b[i].empty() {
			order = append(order, i)
		}
	}
	sort.SliceStable(order, func(i, j int) bool { return b[order[i]].Size > b[order[j]].Size })
	var placed []int
	for _, i := range order {
		at := mem.Offset(0)
		for _, p := range placed {
			if b[p].Lower >= b[i].Upper || b[i].Lower >= b[p].Upper || s.Offsets[p]+mem.Offset(b[p].Size) <= at {
				continue
			}
			if s.Offsets[p] >= at+mem.Offset(b[i].Size) {
				break
			}
			at = s.Offsets[p] + mem.Offset(b[p].Size)
		}
		s.Offsets[i] = at
		s.Makespan = max(s.Makespan, mem.Bytes(at)+b[i].Size)
		k := sort.Search(len(placed), func(k int) bool { return s.Offsets[placed[k]] >= at })
		placed = append(placed, 0)
		copy(placed[k+1:], placed[k:])
		placed[k] = i
	}
	s.Descents = 1
	return s
}
