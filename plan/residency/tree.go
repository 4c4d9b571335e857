package residency

import "stalloc/internal/mem"

// tree holds a load for each of n places: adds to ranges, finds the last place above a height.
type tree struct {
	leaves int
	high   []mem.Bytes // by node, the highest below it, without what is added to nodes above
	added  []mem.Bytes // by node, to all below it
}

func newTree(loads []mem.Bytes) *tree {
	t := &tree{leaves: 1}
	for t.leaves < len(loads) {
		t.leaves *= 2
	}
	t.high, t.added = make([]mem.Bytes, 2*t.leaves), make([]mem.Bytes, 2*t.leaves)
	copy(t.high[t.leaves:], loads)
	for i := t.leaves - 1; i > 0; i-- {
		t.high[i] = max(t.high[2*i], t.high[2*i+1])
	}
	return t
}

// add adds size to the places from lo up to hi, without hi.
func (t *tree) add(lo, hi int, size mem.Bytes) { t.addIn(1, 0, t.leaves, lo, hi, size) }

func (t *tree) addIn(node, from, to, lo, hi int, size mem.Bytes) {
	if hi <= from || to <= lo {
		return
	}
	if lo <= from && to <= hi {
		t.high[node] += size
		t.added[node] += size
		return
	}
	middle := (from + to) / 2
	t.addIn(2*node, from, middle, lo, hi, size)
	t.addIn(2*node+1, middle, to, lo, hi, size)
	t.high[node] = max(t.high[2*node], t.high[2*node+1]) + t.added[node]
}

// last returns the last place from lo up to hi, without hi, that is above a height; lo-1: none.
func (t *tree) last(lo, hi int, above mem.Bytes) int {
	return max(lo-1, t.lastIn(1, 0, t.leaves, lo, hi, above))
}

func (t *tree) lastIn(node, from, to, lo, hi int, above mem.Bytes) int {
	if hi <= from || to <= lo || t.high[node] <= above {
		return -1
	}
	if to-from == 1 {
		return from
	}
	middle, above := (from+to)/2, above-t.added[node]
	if at := t.lastIn(2*node+1, middle, to, lo, hi, above); at >= 0 {
		return at
	}
	return t.lastIn(2*node, from, middle, lo, hi, above)
}
