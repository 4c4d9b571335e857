package stream

// owe adds a live slot to the owed set. A full set switches the tape off: the
// guard could not be complete any more.
func (t *Tape) owe(place uint32) {
	s, l := t.State, &t.Live[place]
	if l.Flags&FlagOwed != 0 {
		return
	}
	s.Late++
	if s.Owed == MaxOwed {
		s.Off = 1
		return
	}
	l.Flags |= FlagOwed
	s.OwedAt[s.Owed] = place
	s.Owed++
}

// settle takes a place out of the owed set: its late free has come.
func (t *Tape) settle(place uint32) {
	s := t.State
	for i := uint32(0); i < s.Owed; i++ {
		if s.OwedAt[i] == place {
			s.Owed--
			s.OwedAt[i] = s.OwedAt[s.Owed]
			return
		}
	}
}

// jump moves the cursor forward to entry at. Frees it passes whose slot is live
// become owed.
func (t *Tape) jump(at uint32) {
	s := t.State
	for ; s.Cursor < at; s.Cursor++ {
		e := &t.Entries[s.Cursor]
		if e.Size != 0 {
			t.overdue(s.Cursor)
			t.missing(e)
		} else if e.Offset&EntryPool == 0 && t.Live[e.Place].Slot == e.Slot+1 {
			t.owe(e.Place)
		}
	}
}

// clear reports whether the slot of an entry has memory and overlaps no owed slot
// and no guest.
func (t *Tape) clear(e *Entry) bool {
	s := t.State
	if e.Offset&EntryPool != 0 {
		return true
	}
	if t.beyond(e) {
		return false
	}
	if len(t.guests.at) > 0 && t.meets(e) {
		return false
	}
	for _, place := range s.OwedAt[:s.Owed] {
		o := t.offsets[place]
		size := uint64(t.slots[t.Live[place].Slot-1].Size)
		if e.offset() < o+size && o < e.offset()+uint64(t.slots[e.Slot].Size) {
			return false
		}
	}
	return true
}
