// Package schedule remembers where the requests of a step are best placed.
//
// # The idea
//
// A plan says of each request of a step, in their order, of which size it is and where its block is
// to lie. That list is a schedule, and a cursor follows it. A request of the size under the cursor
// is told its planned offset; whoever serves it looks whether all bytes there are free and serves
// it elsewhere if they are not. So the cursor need not know what is live, of frees or of other
// streams.
//
//	entry     0      1      2      3      4
//	        4K @0  2M @8  4K @1  6M @9  2M @8
//	                        ^ cursor
//
// # When a request is not the one that is expected
//
// The step is not the one that was planned, and what follows would be placed beside blocks
// that the plan knows nothing of: the cursor is silent until it begins again. Going on where
// the requests agree again was measured. It gives hits, and costs memory and driver calls.
package schedule

// An Entry is an expected request: its size and, if it has one, its place, both in
// units of 512 bytes, in one word.
type Entry uint64

// placeBits is the width of a place: 2^33 units are 4 TiB.
const placeBits = 33

// Of returns the entry of a request of size units at a place; zero: without a planned offset.
func Of(size, place uint64) Entry { return Entry(size<<placeBits | place) }

// Size returns the request's size.
func (e Entry) Size() uint64 { return uint64(e) >> placeBits }

// Place returns where its block is to lie, zero if that is left open.
func (e Entry) Place() uint64 { return uint64(e) & (1<<placeBits - 1) }

// The cursors of a stream: for its large requests and for its small ones.
const (
	Large = iota
	Small
	Cursors // so many
)

// Cursor follows a schedule through a step. C has the same (struct stalloc_cursor); a test compares
// the two (cshim/internal/cquick).
type Cursor struct {
	Entries  []Entry
	At       int  // the next entry
	Diverged bool // a request was not the expected one: no hits until the next boundary
	// requests served at their planned offsets, and others while there was a schedule; never reset
	Hits, Misses uint64
}

// Next returns the entry of a request of size units; zero: the cursor expects another.
func (t *Cursor) Next(size uint64) Entry {
	if at := t.At; !t.Diverged && at < len(t.Entries) && t.Entries[at].Size() == size {
		t.At++
		return t.Entries[at]
	}
	t.Diverged = len(t.Entries) > 0
	return 0
}

// Count counts a request while there are entries.
func (t *Cursor) Count(hit bool) {
	if hit {
		t.Hits++
	} else if len(t.Entries) > 0 {
		t.Misses++
	}
}

// Replace starts another schedule, or the same again.
func (t *Cursor) Replace(entries []Entry) { t.Entries, t.At, t.Diverged = entries, 0, false }
