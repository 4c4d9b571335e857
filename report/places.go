package report

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
)

// nowhere is the place of a block without bytes, or one that was never served.
const nowhere = -1

// places turns the addresses that one allocator gave into heights above the lowest one,
// in grains, leaving out what no block ever lay on. It returns the height of all of it.
func places(l *ledger, at []mem.Addr) (heights []int, height mem.Bytes) {
	type extent struct{ from, to mem.Addr }
	var used []extent
	for i := range l.blocks {
		if at[i] != 0 {
			used = append(used, extent{at[i], at[i] + mem.Addr(mem.Round(l.blocks[i].size))})
		}
	}
	slices.SortFunc(used, func(a, b extent) int { return cmp.Compare(a.from, b.from) })
	whole := used[:0]
	for _, e := range used {
		if n := len(whole); n > 0 && e.from <= whole[n-1].to {
			whole[n-1].to = max(whole[n-1].to, e.to)
		} else {
			whole = append(whole, e)
		}
	}
	below := make([]mem.Bytes, len(whole)) // what lies below each extent
	for i, e := range whole {
		below[i] = height
		height += mem.Bytes(e.to - e.from)
	}
	heights = make([]int, len(at))
	for i, a := range at {
		if heights[i] = nowhere; a == 0 {
			continue
		}
		n, found := slices.BinarySearchFunc(whole, a, func(e extent, a mem.Addr) int { return cmp.Compare(e.from, a) })
		if !found {
			n--
		}
		heights[i] = int((below[n] + mem.Bytes(a-whole[n].from)) / mem.Grain)
	}
	return heights, height
}
