package stream

import "stalloc/internal/mem"

// BeginsAnew reports whether the order that is served has no request left, nothing
// but persistent blocks lives in the arena, and the request is the first of an
// order: where nobody marks the steps, the next one begins here.
func (t *Tape) BeginsAnew(asked mem.Bytes) bool {
	s := t.State
	if t.Entries[nextAlloc(t.Entries, s.Cursor)].Size != 0 || s.LiveN != s.PersistN || len(t.guests.at) > 0 {
		return false
	}
	for _, order := range t.Orders {
		if order[nextAlloc(order, 0)].takes(uint64(mem.Round(asked))) {
			return true
		}
	}
	return false
}
