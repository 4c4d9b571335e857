package paper

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
)

// region is the bytes that are taken of the static region, in order.
type region struct{ busy []span }

// after returns the place in the order of the first that ends above an offset.
func (r *region) after(at mem.Offset) int {
	i, _ := slices.BinarySearchFunc(r.busy, at, func(s span, at mem.Offset) int {
		return cmp.Compare(s.to, at+1)
	})
	return i
}

// take takes bytes, if all of them are free.
func (r *region) take(s span) bool {
	i := r.after(s.from)
	if i < len(r.busy) && r.busy[i].from < s.to {
		return false
	}
	r.busy = slices.Insert(r.busy, i, s)
	return true
}

// give gives back what was taken.
func (r *region) give(s span) {
	i := r.after(s.from)
	r.busy = slices.Delete(r.busy, i, i+1)
}

// fit takes bytes from the smallest free part of the intervals that has room, the lowest of equals.
func (r *region) fit(within idle, size mem.Bytes) (mem.Offset, bool) {
	best, smallest := nowhere, mem.Bytes(0)
	look := func(from, to mem.Offset) {
		if n := mem.Bytes(to - from); n >= size && (best == nowhere || n < smallest) {
			best, smallest = from, n
		}
	}
	for _, w := range within {
		low := w.from
		for i := r.after(w.from); i < len(r.busy) && r.busy[i].from < w.to; i++ {
			look(low, r.busy[i].from)
			low = r.busy[i].to
		}
		look(low, w.to)
	}
	return best, best != nowhere && r.take(span{best, best + mem.Offset(size)})
}
