// Package shortlived foresees whether a block will be gone when its step needs the most memory.
//
// # The idea
//
// Some of what a forward pass asks for is kept for the backward pass, and some is gone a few
// requests later. Where the two lie mixed, what is gone leaves holes between what is kept,
// and at the peak of the load a hole that is smaller than a handle is lost. A block that will be
// gone by then is short-lived. It goes to the end of its gap, all others to the beginning:
//
//	gap   | kept  kept  kept · · · · · · · · · · · short-lived |
//
// Plans know when blocks end. This is for requests that none serves: of steps that differ,
// with experts or with lengths that vary. Their sizes tell nothing, since hardly one comes
// twice. What the program did just before does tell: the same line of code is reached
// behind the same requests and frees. So it is foreseen as processors foresee branches, from
// a hash of the latest ones of all (T.-Y. Yeh and Y. N. Patt, Two-Level Adaptive Training
// Branch Prediction, 1991). A few hundred such histories are all that a step has.
package shortlived

import "stalloc/stream/schedule"

const (
	// Small requests, up to so many units of 512 bytes, are neither foreseen nor noted.
	Small = 128
	// Large ones, of as many as the largest handle and more, are not foreseen: what they leave
	// is whole handles.
	Large = 1 << 15
	// Depth is how many requests and frees a history spans.
	Depth = 16

	keyBits = 14
	// Keys is how many histories are told apart.
	Keys = 1 << keyBits
)

// What a history says of a request or free, in two bits.
const (
	other = 1 + iota // a request of another size than the one before
	same             // a request of the same size as the one before
	free
)

// History is what a device was asked last. C keeps one as well (cshim/short_lived.h).
type History struct {
	Word uint32 // two bits for each request or free, the latest the lowest
	Last uint64 // units of the latest request
}

// Note goes on with an event.
func (h *History) Note(e schedule.Event) {
	size := e.Size()
	if size <= Small {
		return
	}
	switch e.Kind() {
	case schedule.EventHit, schedule.EventMiss:
		h.Word, h.Last = h.with(size), size
	case schedule.EventFree, schedule.EventLate:
		h.Word = h.Word<<2 | free
	}
}

// with returns the word behind a request of size units.
func (h *History) with(size uint64) uint32 {
	if size == h.Last {
		return h.Word<<2 | same
	}
	return h.Word<<2 | other
}

// Key numbers the history with a request of size units at its end: below Keys.
func (h *History) Key(size uint64) int { return int(h.with(size) * 0x9e3779b1 >> (32 - keyBits)) }

// Table says of each key whether its blocks are short-lived.
type Table [Keys / 64]uint64

// ShortLived reports whether a request of size units behind a history is for a short-lived block.
func (t *Table) ShortLived(h *History, size uint64) bool {
	k := h.Key(size)
	return size > Small && size < Large && t[k/64]>>(k%64)&1 != 0
}
