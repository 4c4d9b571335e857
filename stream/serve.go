package stream

import "stalloc/internal/mem"

// Served is the outcome of a request.
type Served struct {
	Addr mem.Addr
	Slot uint32 // None: a miss
	Pool bool   // a miss that the tape expected: the pool serves it by plan
	// Guest: a miss that was placed in a hole of the arena, at Addr. It is freed as
	// a slot is.
	Guest bool
	// A miss that was matched to a position of the tape has a ticket, to be given
	// back with Tape.Ended, and is expected to be freed at entry Ends (None: not
	// within the step) while the tape is at entry Now.
	Ticket    Ticket
	Now, Ends uint32
}

// Alloc serves a request of asked bytes or reports a miss. It is the whole of
// what C does in its quick case, followed by the look-ahead.
func (t *Tape) Alloc(asked mem.Bytes) Served {
	n := uint64(mem.Round(asked))
	s := t.State
	if e := &t.Entries[s.Cursor]; e.takes(n) && s.Owed|s.Partial|s.Off == 0 {
		return t.take(s.Cursor, uint64(asked))
	}
	return t.AllocSlow(asked)
}

// AllocSlow serves a request that the quick case refused.
func (t *Tape) AllocSlow(asked mem.Bytes) Served {
	n := uint64(mem.Round(asked))
	if t.State.Off == 0 {
		t.turn(n)
		if at := t.seek(n); at != None {
			return t.serveAt(at, n, uint64(asked))
		}
	}
	t.strayed = true
	t.State.Misses++
	if !t.Hosts {
		return Served{Slot: None}
	}
	return Served{Slot: None, Ticket: t.ticket(t.follow.live.push(None)), Now: t.State.Cursor, Ends: None}
}

// take hands out the slot of entry at and moves the cursor behind it and behind
// the frees of slots that are not live.
func (t *Tape) take(at uint32, asked uint64) Served {
	e, s := &t.Entries[at], t.State
	if e.Offset&EntryPool != 0 {
		s.Cursor = at + 1
		s.Misses++
		t.skipFreed()
		return Served{Slot: None, Pool: true}
	}
	l := Live{Slot: e.Slot + 1, Asked: asked}
	if e.Offset&EntryPersists != 0 {
		l.Flags = FlagPersists
		s.PersistN++
	}
	t.Live[e.Place] = l
	s.LiveN++
	s.Hits++
	s.Cursor = at + 1
	t.skipFreed()
	return Served{Addr: mem.Addr(s.Base + e.offset()), Slot: e.Slot}
}

// skipFreed moves the cursor over frees whose slot is no longer live: it was
// freed early or was never served.
func (t *Tape) skipFreed() {
	s := t.State
	for {
		e := &t.Entries[s.Cursor]
		if e.Size != 0 || e.Slot == None || t.Live[e.Place].Slot == e.Slot+1 {
			return
		}
		s.Cursor++
	}
}

// Freed is the outcome of a free.
type Freed struct {
	Slot   uint32 // None: no live slot starts at that address, or it was freed before
	Asked  mem.Bytes
	Pinned bool // another stream used the block: it stays live until Release
	Guest  bool // it was a guest
}

// Free frees the live slot at an address. A pinned slot stays live.
func (t *Tape) Free(addr mem.Addr) Freed {
	place := t.place(uint64(addr) - t.State.Base)
	if place == None {
		return t.freeGuest(addr)
	}
	l := &t.Live[place]
	if l.Slot == 0 || l.Flags&FlagFreed != 0 {
		return Freed{Slot: None}
	}
	f := Freed{Slot: l.Slot - 1, Asked: mem.Bytes(l.Asked), Pinned: l.Flags&FlagPinned != 0}
	if f.Pinned {
		l.Flags |= FlagFreed
	} else {
		t.release(place)
	}
	return f
}

// Pin marks the live slot at an address as used by another stream, so that Free
// leaves it live until Release. It reports whether there is such a slot.
func (t *Tape) Pin(addr mem.Addr) bool {
	place := t.place(uint64(addr) - t.State.Base)
	if i := t.guestAt(uint64(addr) - t.State.Base); i >= 0 {
		g := &t.guests.at[i]
		g.pinned = g.pinned || !g.freed
		return !g.freed
	}
	if place == None || t.Live[place].Slot == 0 || t.Live[place].Flags&FlagFreed != 0 {
		return false
	}
	t.Live[place].Flags |= FlagPinned
	return true
}

// Release ends the life of a pinned slot whose fences have passed. It reports
// whether there is such a slot.
func (t *Tape) Release(addr mem.Addr) bool {
	place := t.place(uint64(addr) - t.State.Base)
	if i := t.guestAt(uint64(addr) - t.State.Base); i >= 0 {
		t.leave(i)
		return true
	}
	if place == None || t.Live[place].Slot == 0 {
		return false
	}
	t.release(place)
	return true
}

func (t *Tape) release(place uint32) {
	s, l := t.State, t.Live[place]
	t.Live[place] = Live{}
	s.note(l.Slot - 1)
	s.LiveN--
	if l.Flags&FlagPersists != 0 {
		s.PersistN--
	}
	if l.Flags&FlagOwed != 0 {
		t.settle(place)
		return
	}
	t.skipFreed()
}

// Step is a step boundary: the cursor goes back to the first entry, and what is
// still live and does not persist becomes owed.
func (t *Tape) Step() {
	s := t.State
	late := s.Owed != 0 || s.LiveN != s.PersistN
	s.Cursor, s.Off, s.Owed = 0, 0, 0
	t.strayed = false
	t.follow.restart(t)
	if late {
		for place := range t.Live {
			l := &t.Live[place]
			l.Flags &^= FlagOwed
			if l.Slot != 0 && l.Flags&FlagPersists == 0 {
				t.owe(uint32(place))
			}
		}
	}
	t.skipFreed()
}
