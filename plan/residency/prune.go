package residency

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
)

// tries is up to how many parts are tried one by one, and exchanged.
const tries = 64

// prune takes back chosen parts while good says that the choice is no worse: first many at once,
// those needed first; of few, the largest first, and then one for a smaller one.
func (g *grid) prune(chosen []bool, good func() bool) {
	var list []int32
	for _, i := range g.come {
		if chosen[i] {
			list = append(list, i)
		}
	}
	for group := len(list); group > tries; group /= 2 {
		list = g.dropGroups(chosen, list, group, good)
	}
	slices.SortStableFunc(list, func(i, j int32) int {
		return cmp.Compare(g.parts[j].size, g.parts[i].size)
	})
	g.dropGroups(chosen, list, 1, good)
	if len(g.parts) <= tries {
		for g.exchange(chosen, good) {
		}
	}
}

// dropGroups tries to take back so many parts at once, and returns those that still leave.
func (g *grid) dropGroups(chosen []bool, list []int32, group int, good func() bool) []int32 {
	kept := list[:0:0]
	for part := range slices.Chunk(list, max(1, group)) {
		set(chosen, part, false)
		if !good() {
			set(chosen, part, true)
			kept = append(kept, part...)
		}
	}
	return kept
}

func set(chosen []bool, parts []int32, to bool) {
	for _, i := range parts {
		chosen[i] = to
	}
}

// exchange lets a smaller part leave in the place of one, or a part in the place of two, and
// reports whether it could.
func (g *grid) exchange(chosen []bool, good func() bool) bool {
	for i := range g.parts {
		for j := range g.parts {
			if !chosen[i] || chosen[j] {
				continue
			}
			chosen[i], chosen[j] = false, true
			if g.parts[j].size < g.parts[i].size && good() {
				return true
			}
			if k := g.third(chosen, g.parts[j].size-g.parts[i].size, j, good); k >= 0 {
				return true
			}
			chosen[i], chosen[j] = true, false
		}
	}
	return false
}

// third finds a part of more than that size that need not leave either, if one may stay that is
// no longer chosen; -1: none.
func (g *grid) third(chosen []bool, above mem.Bytes, not int, good func() bool) int {
	for k := range g.parts {
		if k == not || !chosen[k] || g.parts[k].size <= above {
			continue
		}
		chosen[k] = false
		if good() {
			return k
		}
		chosen[k] = true
	}
	return -1
}

// bytes is how much a choice lets leave.
func (g *grid) bytes(chosen []bool) (sum mem.Bytes) {
	for i, c := range chosen {
		if c {
			sum += g.parts[i].size
		}
	}
	return sum
}
