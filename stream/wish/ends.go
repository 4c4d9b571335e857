package wish

// BeginsAnew reports whether the tape has no entry left and a request of size units is its
// first one: where nobody marks the steps, the next one begins here.
func (t *Tape) BeginsAnew(size uint64) bool {
	return len(t.Entries) > 0 && int(t.Cursor) >= len(t.Entries) && t.Entries[0].Size() == size
}

// Lost reports whether the step is another than the tape's.
func (t *Tape) Lost() bool { return t.Missed > lostAfter+t.Matched/8 }

// lostAfter is how many requests may be missed before the tape is thought to be lost.
const lostAfter = 64
