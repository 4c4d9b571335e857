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
	if int(s.Cursor) >= len(t.Entries) {
		return fmt.Errorf("cursor %d is behind the end of %d entries", s.Cursor, len(t.Entries))
	}
	return nil
}

func offset(b mem.Bytes) mem.Offset { return mem.Offset(b) }
