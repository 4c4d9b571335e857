package stream

import "stalloc/internal/mem"

// An arena may have less memory than its plan needs. A run that starts with the
// plan of an earlier one may not be like it after all, and even if it is, kinds of
// step that need more may come late or never. So such an arena is made as large as
// the step that goes on needs it: as long as the order that is served has slots
// beyond what is covered, every request is Go's to look at, and whoever serves
// misses asks Lacks before each.

// Cover says how much memory the arena has, from its base on. Without it a tape
// takes the arena to be complete.
func (t *Tape) Cover(bytes mem.Bytes) {
	t.covered = uint64(bytes)
	t.watch()
}

// Needs returns how much memory the arena must have for the whole of the order that
// is served.
func (t *Tape) Needs() mem.Bytes { return mem.Bytes(t.tops[t.order]) }

// watch sets State.Partial for the order that is served.
func (t *Tape) watch() {
	t.State.Partial = 0
	if t.tops[t.order] > t.covered {
		t.State.Partial = 1
	}
}

// Lacks returns how much memory the arena must have, from its base on, before a
// request of asked bytes can have the slot under the cursor; zero if it can now.
func (t *Tape) Lacks(asked mem.Bytes) mem.Bytes {
	if t.State.Partial == 0 {
		return 0
	}
	e := &t.Entries[nextAlloc(t.Entries, t.State.Cursor)]
	if !e.takes(uint64(mem.Round(asked))) || !t.beyond(e) {
		return 0
	}
	return mem.Bytes(t.end(e))
}

func (t *Tape) end(e *Entry) uint64 { return e.offset() + uint64(t.slots[e.Slot].Size) }

// beyond reports whether the slot of an allocation entry has no memory yet.
func (t *Tape) beyond(e *Entry) bool { return e.Offset&EntryPool == 0 && t.end(e) > t.covered }

// top returns where the highest slot of an order ends.
func (l *Layout) top(order []Entry) (top uint64) {
	for i := range order {
		if e := &order[i]; e.Size != 0 && e.Offset&EntryPool == 0 {
			top = max(top, e.offset()+uint64(l.slots[e.Slot].Size))
		}
	}
	return top
}

// Absent returns how much less lives in the arena than the order has live at the
// cursor. Where that is much, the step is not the one that was planned, although
// its requests are: memory for more of it is not worth having.
func (t *Tape) Absent() (bytes mem.Bytes) {
	free := t.follow.shapes[t.order].free
	for at := range t.State.Cursor {
		e := &t.Entries[at]
		if e.Size == 0 || e.Offset&EntryPool != 0 || t.Live[e.Place].Slot == e.Slot+1 {
			continue
		}
		if until := free[e.Slot]; until == None || until >= t.State.Cursor {
			bytes += t.slots[e.Slot].Size
		}
	}
	return bytes
}
