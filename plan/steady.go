package plan

import "stalloc/internal/mem"

// Steady returns what is left of a stream's plan when its prologue is over, or was
// lost: the steady tapes, moved down to the base, where the slots that persist
// have lain.
func (s *Stream) Steady() *Stream {
	if len(s.Tapes) == 0 || s.Tapes[0].Kind != Prologue {
		return s
	}
	return s.rest(s.Tapes[1:], 0)
}

// Behind returns what is left of a stream's plan when the first requests of its
// prologue, given by rounded size, have been served elsewhere. Slots that persist
// are stacked from the base in the order of their requests, so what is left can be
// moved down by those that are gone. It reports whether the plan begins with these
// requests.
func (s *Stream) Behind(requests []mem.Bytes) (*Stream, bool) {
	if len(s.Tapes) == 0 || s.Tapes[0].Kind != Prologue {
		return nil, false
	}
	n := 0
	for _, e := range s.Tapes[0].Entries {
		if n == len(requests) {
			break
		}
		if slot := s.Slots[e.Slot()]; !e.Frees() {
			if !slot.Pool && slot.Size != requests[n] {
				return nil, false
			}
			n++
		}
	}
	if n < len(requests) {
		return nil, false
	}
	return s.rest(s.Tapes, n), true
}

// rest returns the stream with some of its tapes, the first without its first
// requests, and with the slots of these, moved down to the base.
func (s *Stream) rest(tapes []Tape, skip int) *Stream {
	tapes = s.without(tapes, skip)
	base := mem.Offset(s.Arena)
	for _, tape := range tapes {
		for _, e := range tape.Entries {
			if slot := s.Slots[e.Slot()]; !slot.Pool {
				base = min(base, slot.Offset)
			}
		}
	}
	rest := &Stream{Ordinal: s.Ordinal, Order: s.Order, Weights: s.Weights, Tapes: tapes}
	index := make([]int32, len(s.Slots))
	var kept mem.Bytes // load of the slots that persist
	for _, tape := range tapes {
		load := kept
		for i, e := range tape.Entries {
			slot := s.Slots[e.Slot()]
			if e.Frees() {
				tape.Entries[i] = ^Entry(index[e.Slot()])
				if !slot.Pool {
					load -= slot.Size
				}
				continue
			}
			at := int32(len(rest.Slots))
			index[e.Slot()], tape.Entries[i] = at, Entry(at)
			if !slot.Pool {
				slot.Offset -= base
				load += slot.Size
				rest.Makespan = max(rest.Makespan, mem.Bytes(slot.End()))
				rest.LowerBound = max(rest.LowerBound, load)
			}
			if slot.Persist {
				kept += slot.Size
			}
			rest.Slots = append(rest.Slots, slot)
		}
	}
	rest.Arena = mem.RoundUp(rest.Makespan, mem.HandleSize)
	return rest
}

// without copies tapes, but for the first requests of the first tape and their
// frees.
func (s *Stream) without(tapes []Tape, skip int) []Tape {
	gone := make([]bool, len(s.Slots))
	copied := make([]Tape, len(tapes))
	for t, tape := range tapes {
		copied[t] = Tape{Kind: tape.Kind, Boundaries: tape.Boundaries, Entries: make([]Entry, 0, len(tape.Entries))}
		for _, e := range tape.Entries {
			if skip > 0 && !e.Frees() {
				gone[e.Slot()] = true
				skip--
			}
			if !gone[e.Slot()] {
				copied[t].Entries = append(copied[t].Entries, e)
			}
		}
	}
	return copied
}
