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

// The tapes of a stream: for its large requests and for its small ones, and what is foreseen
// of the running step's larger ones (plan/predict) where no plan serves them.
const (
	Large = iota
	Small
	Foreseen
	Tapes // so many
)

// State is what a tape knows besides its entries. C serves from it as well (cshim/tape.h),
// so it has the same layout there.
type State struct {
	Cursor          uint32    // the next entry
	Strays          uint32    // requests since the last that was matched; of more than lastKept, so many
	Last            [4]uint64 // their sizes, the latest first
	Matched, Missed uint64    // requests since the last boundary that were on the tape, and that were not
	Hits, Misses    uint64    // ever: requests that were served where they were wished, and others while there were entries
}

// lastKept is how many sizes State.Last holds.
const lastKept = 4

// Tape is the list and the cursor.
type Tape struct {
	*State
	Entries []Entry
}

// New returns a tape at its first entry.
func New(entries []Entry) Tape { return Tape{State: &State{}, Entries: entries} }

// Next returns the entry of a request of size units; zero: it is not expected here.
func (t *Tape) Next(size uint64) Entry {
	at := int(t.Cursor)
	if at >= len(t.Entries) || t.Entries[at].Size() != size {
		at = t.seek(size)
	}
	if at < 0 {
		t.Last = [lastKept]uint64{size, t.Last[0], t.Last[1], t.Last[2]}
		t.Strays = min(t.Strays+1, lastKept)
		t.Missed++
		return 0
	}
	t.Cursor, t.Strays = uint32(at)+1, 0
	t.Matched++
	return t.Entries[at]
}

// seek finds where the tape goes on with a request that is not under the cursor: behind
// an entry that came in another size, or where the last requests follow each other as on
// the tape. The farther, the more of them, and the most to go back: sizes are few.
func (t *Tape) seek(size uint64) int {
	cursor := int(t.Cursor)
	next := cursor + 1
	if t.Strays == 0 {
		return -1
	}
	if next < len(t.Entries) && t.Entries[next].Size() == size {
		return next
	}
	for at := next; at < min(cursor+Window, len(t.Entries)); at++ {
		if t.Entries[at].Size() == size && t.follows(at, 1+bits.Len(uint(at-cursor))/3) {
			return at
		}
	}
	for at := min(cursor, len(t.Entries)) - 1; at >= max(cursor-Window, 0); at-- { // it went too far
		if t.Entries[at].Size() == size && t.follows(at, lastKept) {
			return at
		}
	}
	return -1
}

// follows reports whether the n entries before one are the last n requests: the strays,
// and before them what the cursor has passed.
func (t *Tape) follows(at, n int) bool {
	for i := range min(n, lastKept) {
		size := t.Last[i]
		if i >= int(t.Strays) {
			before := int(t.Cursor) - 1 - (i - int(t.Strays))
			if before < 0 {
				return false
			}
			size = t.Entries[before].Size()
		}
		if at-1-i < 0 || t.Entries[at-1-i].Size() != size {
			return false
		}
	}
	return true
}

// Boundary begins the list again.
func (t *Tape) Boundary() { *t.State = State{Hits: t.Hits, Misses: t.Misses} }

// Replace goes on with another list from its first entry.
func (t *Tape) Replace(entries []Entry) {
	t.Boundary()
	t.Entries = entries
}
