// Package wish remembers where the requests of a step are best placed.
//
// # The idea
//
// A plan says of each request of a step, in their order, of which size it is and where
// its block is to lie. A tape is that list, with a cursor. A request of the size under
// the cursor is told its place, a wish; whoever serves it looks whether all bytes there
// are free and serves it elsewhere if they are not. So the tape need not know what is
// live, of frees or of other streams, and cannot do harm: a wrong match costs a place
// that is not the best.
//
//	entry     0      1      2      3      4
//	        4K @0  2M @8  4K @1  6M @9  2M @8
//	                        ^ cursor
//
// # When a request is not the one that is expected
//
// It has no wish, and the cursor waits: something may have been inserted. It goes on
// where the next request, or that together with the one before, agrees with the tape
// again, up to Window entries ahead or back: something was left out, or came in another
// size, or the cursor had gone too far.
package wish

import "math/bits"

// An Entry is an expected request: its size and, if it has one, its place, both in
// units of 512 bytes, in one word.
type Entry uint64

// placeBits is the width of a place: 2^33 units are 4 TiB.
const placeBits = 33

// Of returns the entry of a request of size units at a place; zero: without a wish.
func Of(size, place uint64) Entry { return Entry(size<<placeBits | place) }

// Size returns the request's size.
func (e Entry) Size() uint64 { return uint64(e) >> placeBits }

// Place returns where its block is to lie, zero if that is left open.
func (e Entry) Place() uint64 { return uint64(e) & (1<<placeBits - 1) }

// Window is how many entries ahead the cursor may go at once: more than the requests of
// a layer.
const Window = 512

// Tape is the list and the cursor. Its zero value expects nothing.
type Tape struct {
	Entries []Entry
	Cursor  int
	// Matched and Missed count requests since the last boundary.
	Matched, Missed int
	strayed         bool      // the last request was missed
	last            [4]uint64 // sizes of the last requests, the latest first
}

// Next returns the entry of a request of size units; zero: it is not expected here.
func (t *Tape) Next(size uint64) Entry {
	at := t.Cursor
	if at >= len(t.Entries) || t.Entries[at].Size() != size {
		at = t.seek(size)
	}
	t.last = [4]uint64{size, t.last[0], t.last[1], t.last[2]}
	if t.strayed = at < 0; t.strayed {
		t.Missed++
		return 0
	}
	t.Cursor = at + 1
	t.Matched++
	return t.Entries[at]
}

// seek finds where the tape goes on with a request that is not under the cursor: behind
// an entry that came in another size, or where the last requests follow each other as on
// the tape. The farther, the more of them, and the most to go back: sizes are few.
func (t *Tape) seek(size uint64) int {
	next := t.Cursor + 1
	if !t.strayed {
		return -1
	}
	if next < len(t.Entries) && t.Entries[next].Size() == size {
		return next
	}
	for at := next; at < min(t.Cursor+Window, len(t.Entries)); at++ {
		if t.Entries[at].Size() == size && t.follows(at, 1+bits.Len(uint(at-t.Cursor))/3) {
			return at
		}
	}
	for at := min(t.Cursor, len(t.Entries)) - 1; at >= max(t.Cursor-Window, 0); at-- { // it went too far
		if t.Entries[at].Size() == size && t.follows(at, len(t.last)) {
			return at
		}
	}
	return -1
}

// follows reports whether the n entries before one are the last n requests.
func (t *Tape) follows(at, n int) bool {
	for i := range min(n, len(t.last)) {
		if at-1-i < 0 || t.Entries[at-1-i].Size() != t.last[i] {
			return false
		}
	}
	return true
}

// Boundary begins the list again.
func (t *Tape) Boundary() { *t = Tape{Entries: t.Entries} }

// Replace goes on with another list from its first entry.
func (t *Tape) Replace(entries []Entry) { *t = Tape{Entries: entries} }
