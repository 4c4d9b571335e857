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
// It takes no longer than to read the lists, however alike their requests are.
func (t *Tape) Find(last []uint64, lists [][]Entry) (list, at int) {
	list = -1
	most := max(ending(last, t.Entries, int(t.Cursor)-1), leastLast-1)
	own := make([]int, len(last))
	rows(len(last)-1, func(i int) uint64 { return last[i+1] }, last, own, func(i, row int) { own[i+1] = row })
	for i, entries := range lists {
		end := len(entries) - 1
		best := most
		rows(len(entries), func(i int) uint64 { return entries[end-i].Size() }, last, own, func(k, row int) {
			if row > most && row >= best {
				list, at, best = i, end-k, row
			}
		})
		most = best
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

// rows tells how many of n sizes, from each on, are the last requests in a row. Of those, own
// says as much, for each but the first: none is looked at twice (D. Gusfield: Algorithms
// on Strings, Trees, and Sequences, 1997, the Z values).
func rows(n int, size func(int) uint64, last []uint64, own []int, tell func(i, row int)) {
	from, to := 0, 0 // where the sizes that were looked at farthest are the last requests
	for i := range n {
		row := 0
		if i < to {
			row = min(own[i-from], to-i)
		}
		if i+row >= to {
			for row < len(last) && i+row < n && size(i+row) == last[row] {
				row++
			}
			from, to = i, i+row
		}
		tell(i, row)
	}
}

// Resume goes on with the entries behind one.
func (t *Tape) Resume(at int) { t.Cursor, t.Matched = uint32(at)+1, uint64(at)+1 }
