package gmlake

import (
	"slices"
	"sort"
)

// addresses hands out ranges of the window, in pages. Ranges are taken one after
// the other, as the driver's reservations are, and only when the window is used up
// from those that were given back: the smallest that is large enough.
type addresses struct {
	next, limit uint32
	holes       []hole // by address, none adjacent
}

type hole struct{ base, pages uint32 }

// take returns the first page of n free ones.
func (a *addresses) take(n uint32) (uint32, bool) {
	if n <= a.limit-a.next {
		a.next += n
		return a.next - n, true
	}
	best := -1
	for i, h := range a.holes {
		if h.pages >= n && (best < 0 || h.pages < a.holes[best].pages) {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	h := &a.holes[best]
	base := h.base
	if h.base, h.pages = h.base+n, h.pages-n; h.pages == 0 {
		a.holes = slices.Delete(a.holes, best, best+1)
	}
	return base, true
}

// put gives n pages back.
func (a *addresses) put(base, n uint32) {
	i := sort.Search(len(a.holes), func(i int) bool { return a.holes[i].base > base })
	a.holes = slices.Insert(a.holes, i, hole{base, n})
	if i+1 < len(a.holes) && base+n == a.holes[i+1].base {
		a.holes[i].pages += a.holes[i+1].pages
		a.holes = slices.Delete(a.holes, i+1, i+2)
	}
	if i > 0 && a.holes[i-1].base+a.holes[i-1].pages == base {
		a.holes[i-1].pages += a.holes[i].pages
		a.holes = slices.Delete(a.holes, i, i+1)
	}
}
