package plan

import "stalloc/internal/mem"

// Steady returns what is left of a stream's plan when its prologue is over, or was
// lost: the steady tapes, moved down to the base, where the slots that persist
// have lain.
func (s *Stream) Steady() *Stream {
	if len(s.Tapes) == 0 || s.Tapes[0].Kind != Prologue {
		return s
	}
	rest := &Stream{Ordinal: s.Ordinal, Order: s.Order, Weights: s.Weights, Tapes: make([]Tape, len(s.Tapes)-1)}
	base := mem.Offset(s.Arena)
	for _, tape := range s.Tapes[1:] {
		for _, e := range tape.Entries {
			if slot := s.Slots[e.Slot()]; !slot.Pool {
				base = min(base, slot.Offset)
			}
		}
	}
	index := make([]int32, len(s.Slots))
	for t, tape := range s.Tapes[1:] {
		entries := make([]Entry, len(tape.Entries))
		var load mem.Bytes
		for i, e := range tape.Entries {
			slot := s.Slots[e.Slot()]
			if e.Frees() {
				entries[i] = ^Entry(index[e.Slot()])
				if !slot.Pool {
					load -= slot.Size
				}
				continue
			}
			at := int32(len(rest.Slots))
			index[e.Slot()], entries[i] = at, Entry(at)
			if !slot.Pool {
				slot.Offset -= base
				load += slot.Size
				rest.Makespan = max(rest.Makespan, mem.Bytes(slot.End()))
				rest.LowerBound = max(rest.LowerBound, load)
			}
			rest.Slots = append(rest.Slots, slot)
		}
		rest.Tapes[t] = Tape{Kind: tape.Kind, Entries: entries}
	}
	rest.Arena = mem.RoundUp(rest.Makespan, mem.HandleSize)
	return rest
}
