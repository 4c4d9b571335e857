package stream

import (
	"fmt"

	"stalloc/internal/mem"
)

// Check recounts the whole state and returns the first invariant that does not
// hold. It costs a sort-free pass over places plus a quadratic pass over the
// live slots, and is meant for tests and for builds with invariants on.
func (t *Tape) Check() error {
	s := t.State
	var live, persist, owed uint32
	var alive []Slot
	for place, l := range t.Live {
		if l.Slot == 0 {
			if l.Flags != 0 {
				return fmt.Errorf("place %d is free and has flags %#x", place, l.Flags)
			}
			continue
		}
		if t.slots[l.Slot-1].Pool {
			continue
		}
		live++
		slot := t.slots[l.Slot-1]
		if t.places[l.Slot-1] != uint32(place) {
			return fmt.Errorf("slot %d is live at place %d, its own is %d", l.Slot-1, place, t.places[l.Slot-1])
		}
		if slot.Persist {
			persist++
		}
		if l.Flags&FlagOwed != 0 {
			owed++
		}
		for _, o := range alive {
			if slot.Offset < o.Offset+offset(o.Size) && o.Offset < slot.Offset+offset(slot.Size) {
				return fmt.Errorf("live slots overlap: %+v and %+v", slot, o)
			}
		}
		alive = append(alive, slot)
	}
	if live != s.LiveN || persist != s.PersistN || owed != s.Owed {
		return fmt.Errorf("counted %d live, %d persistent, %d owed; state says %d, %d, %d", live, persist, owed, s.LiveN, s.PersistN, s.Owed)
	}
	for _, place := range s.OwedAt[:s.Owed] {
		if t.Live[place].Flags&FlagOwed == 0 {
			return fmt.Errorf("place %d is in the owed set and not marked", place)
		}
	}
	if top := t.tops[t.order]; s.Partial == 0 && top > t.covered {
		return fmt.Errorf("the order needs %d bytes, the arena has %d, and requests are not looked at", top, t.covered)
	}
	for _, o := range alive {
		if uint64(o.Offset)+uint64(o.Size) > t.covered {
			return fmt.Errorf("live slot %+v lies beyond the %d bytes that the arena has", o, t.covered)
		}
	}
	if err := t.checkGuests(alive); err != nil {
		return err
	}
	if int(s.Cursor) >= len(t.Entries) {
		return fmt.Errorf("cursor %d is behind the end of %d entries", s.Cursor, len(t.Entries))
	}
	return nil
}

// checkGuests tests that no guest meets a live slot or another guest, and that no
// slot can meet one behind the quick case's back: every allocation from the cursor
// on that would is behind the guest's mark.
func (t *Tape) checkGuests(alive []Slot) error {
	marks := make([]int, len(t.Entries))
	for i := range t.guests.at {
		g := &t.guests.at[i]
		if i > 0 && t.guests.at[i-1].hi > g.lo {
			return fmt.Errorf("guests overlap: %+v and %+v", t.guests.at[i-1], *g)
		}
		for _, o := range alive {
			if grains(uint64(o.Offset)) < g.hi && g.lo < grains(uint64(o.Offset)+uint64(o.Size)) {
				return fmt.Errorf("guest %+v overlaps live slot %+v", *g, o)
			}
		}
		until := uint32(len(t.Entries) - 1)
		if g.mark != None {
			until = g.mark
			marks[g.mark]++
		}
		for at := t.State.Cursor; at < until; at++ {
			e := &t.Entries[at]
			if e.Size != 0 && e.Offset&EntryPool == 0 && grains(e.offset()) < g.hi && g.lo < grains(e.offset()+uint64(t.slots[e.Slot].Size)) {
				return fmt.Errorf("guest %+v meets the slot of entry %d, before its mark", *g, at)
			}
		}
	}
	for at, n := range marks {
		if m := int(t.guests.marks[t.order][at]); m != n && m != 255 {
			return fmt.Errorf("entry %d has %d marks, counted %d", at, m, n)
		}
		if e := &t.Entries[at]; e.Size != 0 && e.Offset&EntryPool == 0 && (e.Size&marked != 0) != (t.guests.marks[t.order][at] != 0) {
			return fmt.Errorf("entry %d of size %d has %d marks", at, e.Size, t.guests.marks[t.order][at])
		}
	}
	return nil
}

func offset(b mem.Bytes) mem.Offset { return mem.Offset(b) }
