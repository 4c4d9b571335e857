package stream

import "slices"

// mark puts a guest's mark on an entry, if it is an allocation.
func (t *Tape) mark(g *guest, at uint32) {
	g.mark = None
	if t.Entries[at].Size == 0 {
		return
	}
	g.mark = at
	if t.guests.marks[t.order][at] < 255 {
		t.guests.marks[t.order][at]++
	}
	t.Entries[at].Size |= marked
}

func (t *Tape) unmark(g *guest) {
	if g.mark == None {
		return
	}
	if m := &t.guests.marks[t.order][g.mark]; *m < 255 {
		*m--
		if *m == 0 {
			t.Entries[g.mark].Size &^= marked
		}
	}
	g.mark = None
}

// overdue moves the marks of the guests at an entry to the next slot that each
// really meets.
func (t *Tape) overdue(at uint32) {
	if t.guests.marks[t.order][at] == 0 {
		return
	}
	for i := range t.guests.at {
		g := &t.guests.at[i]
		if g.mark != at {
			continue
		}
		t.unmark(g)
		t.mark(g, t.meeting(g.gap, at+1))
		g.since = at + 1
	}
}

// meeting returns the first allocation at or behind an entry whose slot meets a
// range, or the end.
func (t *Tape) meeting(r gap, from uint32) uint32 {
	last := uint32(len(t.Entries) - 1)
	for at := from; at < last; {
		h := t.holes[t.order]
		at = h.idleUntil(r, at)
		for end := min((at/h.width+1)*h.width, last); at < end; at++ {
			e := &t.Entries[at]
			if e.Size != 0 && e.Offset&EntryPool == 0 && grains(e.offset()) < r.hi && r.lo < grains(e.offset()+uint64(t.slots[e.Slot].Size)) {
				return at
			}
		}
	}
	return last
}

// unmarkAll takes the marks off the order that is served.
func (t *Tape) unmarkAll() {
	for i := range t.guests.at {
		t.unmark(&t.guests.at[i])
		t.guests.at[i].since = None
	}
}

// remark sets the marks of all guests as seen from an entry to which the cursor
// went back, at a step boundary or within a step. Guests that were placed before
// it are marked already. Slots that were left out behind it may come yet.
func (t *Tape) remark(from uint32) {
	t.guests.absent = slices.DeleteFunc(t.guests.absent, func(a absent) bool { return a.from >= from })
	for i := range t.guests.at {
		if g := &t.guests.at[i]; g.since > from {
			t.unmark(g)
			t.mark(g, t.meeting(g.gap, from))
			g.since = from
		}
	}
}
