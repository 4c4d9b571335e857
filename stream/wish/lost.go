package wish

// Patience says when the other lists are to be looked through: where a tape has lost the
// program, an evaluation in the middle of a step for example, another list may have it.
type Patience struct {
	matched, wait uint64
}

const (
	// MostLast is how many of the last requests are compared, and leastLast how many in a row
	// tell a list.
	MostLast, leastLast = 1024, 16
	// Where so many requests were not on the tape, and no more were, another list is looked
	// for; in vain, then behind twice as many.
	lostAt = 16
)

// Begin is for a tape that begins.
func (p *Patience) Begin(t *Tape) { p.matched, p.wait, t.Ask = t.Matched, lostAt, lostAt }

// Lost reports whether the other lists should be looked through now.
func (p *Patience) Lost(t *Tape) bool {
	if t.Ask == 0 || t.Missed < t.Ask {
		return false
	}
	lost := t.Matched < p.matched+p.wait
	if lost {
		p.wait *= 2
	}
	p.matched = t.Matched
	t.Ask = t.Missed + p.wait
	return lost
}

// Find looks for the list that has the most of the last requests in a row, at the first such
// place: more than the tape has before its cursor. The sizes are in units, the latest first.
// It returns the list's number and the place of the last request on it; -1: there is none.
func (t *Tape) Find(last []uint64, lists [][]Entry) (list, at int) {
	list = -1
	most := max(ending(last, t.Entries, int(t.Cursor)-1), leastLast-1)
	for i, entries := range lists {
		for k := range entries {
			if most == len(last) {
				return list, at
			}
			if n := ending(last, entries, k); n > most {
				list, at, most = i, k, n
			}
		}
	}
	return list, at
}

// ending returns how many entries up to one are the last requests.
func ending(last []uint64, entries []Entry, at int) (n int) {
	for n < min(len(last), at+1) && entries[at-n].Size() == last[n] {
		n++
	}
	return n
}

// Resume goes on with the entries behind one.
func (t *Tape) Resume(at int) { t.Cursor, t.Matched = uint32(at)+1, uint64(at)+1 }
