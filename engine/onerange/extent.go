package onerange

import "math/bits"

// The window is cut into extents of a power of two pages. Extents of dropped
// views are kept by size and never merged: the window is thousands of times
// larger than a device, and a view's size is one that comes again.
type addresses struct {
	next  uint32 // first page never used
	limit uint32
	spare [33][]uint32
}

// get returns an extent of at least so many pages, as its first page and the
// logarithm of its length.
func (x *addresses) get(pages uint32) (base uint32, class uint8, ok bool) {
	c := bits.Len32(pages - 1)
	if n := len(x.spare[c]); n > 0 {
		base = x.spare[c][n-1]
		x.spare[c] = x.spare[c][:n-1]
		return base, uint8(c), true
	}
	if uint64(x.next)+1<<c > uint64(x.limit) {
		return 0, 0, false
	}
	base = x.next
	x.next += 1 << c
	return base, uint8(c), true
}

func (x *addresses) put(base uint32, class uint8) {
	x.spare[class] = append(x.spare[class], base)
}
