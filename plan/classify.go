package plan

import (
	"slices"

	"stalloc/internal/mem"
)

// sighting is what several learned steps say about one block of the last of them.
type sighting struct {
	least, most mem.Bytes   // sizes seen at this position
	sizes       []mem.Bytes // in each step that has the position, the last step first
}

func (s sighting) fixed() bool { return s.least == s.most }

// classify aligns the earlier steps with the last and returns the sighting of
// each of its blocks. Two blocks of different steps correspond if their
// allocations do.
//
// Matching them with the online matcher instead would repeat in the plan the very
// errors that the plan is to survive.
func classify(steps []*Step) []sighting {
	last := steps[len(steps)-1]
	seen := make([]sighting, len(last.Blocks))
	for i, b := range last.Blocks {
		seen[i] = sighting{least: b.Size, most: b.Size, sizes: []mem.Bytes{b.Size}}
	}
	for _, s := range steps[:len(steps)-1] {
		to := alignSteps(last, s)
		for i, b := range last.Blocks {
			if b.Alloc < 0 || to[b.Alloc] == unaligned {
				continue
			}
			other := s.Blocks[s.Ops[to[b.Alloc]].Block]
			seen[i].sizes = append(seen[i].sizes, other.Size)
			seen[i].least, seen[i].most = min(seen[i].least, other.Size), max(seen[i].most, other.Size)
		}
	}
	return seen
}

// anchorSize is the size from which a block can be an anchor. Smaller sizes are
// common and come by chance.
const anchorSize = mem.MiB

// alignSteps aligns two steps by their structure, once as a whole and once between
// anchors, and takes the second unless the first explains clearly more.
//
// Anchors hold the alignment where irregular parts repeat one pattern: a layer
// with more experts in one step must not push the next layer's along. An anchor is
// an allocation of a large size that comes about equally often in both steps, told
// apart by the events before it. Where all sizes vary some will agree by chance
// only, and then the whole is better.
func alignSteps(a, b *Step) []int32 {
	ta, tb := a.tokens(), b.tokens()
	if slices.Equal(ta, tb) {
		return align(ta, tb)
	}
	whole, anchored := align(ta, tb), alignAnchored(a, b, ta, tb)
	if w, n := explained(a, b, whole), explained(a, b, anchored); w-n > n/20 {
		return whole
	}
	return anchored
}

// explained sums up the allocations that correspond, those of equal size twice.
func explained(a, b *Step, to []int32) (sum mem.Bytes) {
	for i, j := range to {
		if j != unaligned && !a.Ops[i].Free {
			size := a.Blocks[a.Ops[i].Block].Size
			sum += size
			if size == b.Blocks[b.Ops[j].Block].Size {
				sum += size
			}
		}
	}
	return sum
}

func alignAnchored(a, b *Step, ta, tb []token) []int32 {
	regular := regularSizes(a, b)
	pa, ka := a.anchors(ta, regular)
	pb, kb := b.anchors(tb, regular)
	to := make([]int32, len(ta))
	i, j := int32(0), int32(0)
	segment := func(x, y int32) {
		for k, m := range align(ta[i:x], tb[j:y]) {
			if m != unaligned {
				m += j
			}
			to[int(i)+k] = m
		}
	}
	for k, m := range align(ka, kb) {
		if m != unaligned {
			segment(pa[k], pb[m])
			to[pa[k]] = pb[m]
			i, j = pa[k]+1, pb[m]+1
		}
	}
	segment(int32(len(ta)), int32(len(tb)))
	return to
}

// regularSizes returns the large sizes that come about equally often in both.
func regularSizes(a, b *Step) map[mem.Bytes]bool {
	count := make(map[mem.Bytes][2]int)
	for k, s := range []*Step{a, b} {
		for _, block := range s.Blocks {
			if block.Alloc >= 0 && block.Size >= anchorSize {
				n := count[block.Size]
				n[k]++
				count[block.Size] = n
			}
		}
	}
	regular := make(map[mem.Bytes]bool)
	for size, n := range count {
		regular[size] = n[0] > 0 && n[1] > 0 && 20*max(n[0]-n[1], n[1]-n[0]) <= n[0]+20
	}
	return regular
}

// anchors returns the places of the step's anchors and a token for each, of its
// size and the structure just before.
func (s *Step) anchors(tokens []token, regular map[mem.Bytes]bool) (places []int32, kinds []token) {
	const context = 4
	for i, op := range s.Ops {
		size := s.Blocks[op.Block].Size
		if op.Free || !regular[size] {
			continue
		}
		kind := uint64(size / mem.Grain)
		for _, t := range tokens[max(0, i-context):i] {
			kind = kind*0x9E3779B97F4A7C15 + uint64(t) + 1
		}
		places, kinds = append(places, int32(i)), append(kinds, token(kind>>32^kind))
	}
	return places, kinds
}
