package stream

import "math/bits"

// After a mismatch the cursor must find the place where the step and the tape
// agree again: a request was inserted, left out, or changed its size. Few sizes
// are common, so a single equal size says little, and the farther a jump the
// more requests in a row must agree; a large size is rarer and is believed
// alone when it is near. A wrong jump is costly because the cursor never goes
// back within a step.
const (
	nearby     = 8       // allocations ahead within which a large size is believed alone
	window     = 256     // allocations ahead that are searched at all
	largeAlone = 1 << 20 // bytes
	remembered = 8       // misses, a power of two; the farthest jump needs that many
)

// matcher remembers the misses since the last hit.
type matcher struct {
	misses uint32
	sizes  [remembered]uint64 // a ring, the last miss at (misses-1)
}

func (m *matcher) hit() { m.misses = 0 }

func (m *matcher) miss(n uint64) {
	m.sizes[m.misses%remembered] = n
	m.misses++
}

// needed returns how many requests in a row must agree for a jump over so many
// allocations.
func needed(ahead int) int {
	return min(2+bits.Len(uint(ahead)/nearby), remembered)
}

// find returns the entry that a request of n rounded bytes is believed to be, or
// None. It looks only forward: a slot that was skipped is never served late.
func (m *matcher) find(t *Tape, n uint64) uint32 {
	// The cheapest explanation first: the frees under the cursor are late.
	at := nextAlloc(t.Entries, t.State.Cursor)
	if t.Entries[at].Size == n {
		return at
	}
	var trail [remembered]uint64 // the sizes of the entries before at, a ring
	for ahead := 1; ahead <= window && t.Entries[at].Size != 0; ahead++ {
		trail[ahead%remembered] = t.Entries[at].Size
		at = nextAlloc(t.Entries, at+1)
		if t.Entries[at].Size != n {
			continue
		}
		if ahead <= nearby && n >= largeAlone || m.agree(&trail, ahead) >= needed(ahead) {
			t.State.Resyncs++
			return at
		}
	}
	return None
}

// agree counts the requests in a row, this one included, that equal the entries
// before the candidate.
func (m *matcher) agree(trail *[remembered]uint64, ahead int) int {
	row := 1
	for row < remembered && row <= ahead && uint32(row) <= m.misses &&
		trail[(ahead-row+1)%remembered] == m.sizes[(m.misses-uint32(row))%remembered] {
		row++
	}
	return row
}

// nextAlloc returns the first allocation at or behind an entry, or the end.
func nextAlloc(entries []Entry, at uint32) uint32 {
	for entries[at].Size == 0 && entries[at].Slot != None {
		at++
	}
	return at
}
