package stream

import "stalloc/internal/mem"

// A tape can be replaced by another over the same arena while blocks live in it:
// the new layout has the live slots among its own, on none of its orders, and
// adopts them one by one. Those that persist stay what they are; the others are
// owed, because the new order does not say when they end.

// Adopted is a live slot on its way to another tape over the same arena.
type Adopted struct {
	Slot  Slot
	Asked uint64
	Flags uint32
}

// Leave returns the live slots, and the guests as slots of their own.
func (t *Tape) Leave() (live []Adopted) {
	for _, l := range t.Live {
		if l.Slot != 0 && !t.slots[l.Slot-1].Pool {
			live = append(live, Adopted{Slot: t.slots[l.Slot-1], Asked: l.Asked, Flags: l.Flags})
		}
	}
	for i := range t.guests.at {
		g := &t.guests.at[i]
		a := Adopted{Asked: uint64(g.asked)}
		a.Slot.Offset, a.Slot.Size = mem.Offset(g.lo)*mem.Offset(mem.Grain), mem.Round(g.asked)
		if g.pinned {
			a.Flags = FlagPinned
		}
		if g.freed {
			a.Flags |= FlagFreed
		}
		live = append(live, a)
	}
	return live
}

// Adopt makes slot i live, as it was on the tape it comes from.
func (t *Tape) Adopt(i uint32, from Adopted) {
	place, s := t.places[i], t.State
	t.Live[place] = Live{Slot: i + 1, Flags: from.Flags &^ FlagOwed, Asked: from.Asked}
	s.LiveN++
	if from.Flags&FlagPersists != 0 {
		s.PersistN++
		return
	}
	t.owe(place)
}

// Succeed says which tape was served before on the same stream: its tickets mean
// nothing to this one.
func (t *Tape) Succeed(before *Tape) { t.follow.live.count = before.follow.live.count }

// Forget takes the live slot or guest at an address off the tape without an end of
// its life: another owner has it now. It reports whether there is one, and whether
// it was pinned.
func (t *Tape) Forget(addr mem.Addr) (found, pinned bool) {
	if i := t.guestAt(uint64(addr) - t.State.Base); i >= 0 {
		pinned = t.guests.at[i].pinned
		t.leave(i)
		return true, pinned
	}
	place := t.place(uint64(addr) - t.State.Base)
	if place == None || t.Live[place].Slot == 0 {
		return false, false
	}
	pinned = t.Live[place].Flags&FlagPinned != 0
	t.release(place)
	return true, pinned
}
