package wish

// Trail is the last requests of a stream, to find a list that they are on when they are not
// served as its tape says. Requests that the tape expected need not be told: they are on it.
type Trail struct {
	last            [trailKept]uint64 // their sizes; the n-th at n modulo the length
	n               int
	cursor          uint32 // of the tape, behind the last request
	matched, missed uint64 // of the tape, when it was looked at last
	patience        uint64 // missed until it is again
}

const (
	// trailKept is how many requests are kept, and trailLeast how many in a row tell a list.
	trailKept, trailLeast = 1024, 16
	// Where so many requests were not on the tape, and no more were, another list is looked
	// for; next time behind twice as many.
	lostAt = 16
)

// Begin forgets all.
func (r *Trail) Begin() {
	r.n, r.cursor, r.matched, r.missed, r.patience = 0, 0, 0, 0, lostAt
}

// Next takes the next request of size units, and returns its entry on the tape. It reports
// whether other lists should be looked through.
func (r *Trail) Next(t *Tape, size uint64) (e Entry, lost bool) {
	for at := max(r.cursor, t.Cursor-min(t.Cursor, trailKept)); at < t.Cursor; at++ {
		r.add(t.Entries[at].Size())
	}
	r.add(size)
	e = t.Next(size)
	r.cursor = t.Cursor
	if t.Missed >= r.missed+r.patience {
		if lost = t.Matched < r.matched+r.patience; lost {
			r.patience *= 2
		}
		r.matched, r.missed = t.Matched, t.Missed
	}
	return e, lost
}

func (r *Trail) add(size uint64) {
	r.last[r.n%trailKept] = size
	r.n++
}

// Find looks for the list that has the most of the last requests in a row, at the first such
// place: more than the tape has before its cursor. It returns the list's number; -1: there is
// none.
func (r *Trail) Find(t *Tape, lists [][]Entry) (list, at int) {
	list = -1
	most := max(r.ending(t.Entries, int(t.Cursor)-1), trailLeast-1)
	for i, entries := range lists {
		for k := range entries {
			if most == min(r.n, trailKept) {
				return list, at
			}
			if n := r.ending(entries, k); n > most {
				list, at, most = i, k, n
			}
		}
	}
	return list, at
}

// ending returns how many entries up to one are the last requests.
func (r *Trail) ending(entries []Entry, at int) (n int) {
	for n < min(r.n, trailKept, at+1) && entries[at-n].Size() == r.last[(r.n-1-n)%trailKept] {
		n++
	}
	return n
}

// Resume goes on with the entries of a list behind one, which is returned.
func (r *Trail) Resume(t *Tape, at int) Entry {
	t.Cursor, t.Matched = uint32(at)+1, uint64(at)+1
	r.cursor, r.patience = t.Cursor, lostAt
	r.matched, r.missed = t.Matched, t.Missed
	return t.Entries[at]
}
