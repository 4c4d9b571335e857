package stream

import "stalloc/internal/mem"

// Where the sizes of a step move together (variable length, images at several
// scales), the first request that varies tells all others: each position lies as
// far between its smallest and its largest size as every other. The foreseen
// sizes are written into the tape, so that the quick case serves them.

// scale is what the requests of a step have told about its sizes.
type scale struct {
	entries [][]uint32 // by order: the allocations with slots whose size varies
	width   uint64     // spread of the position that told; 0: none yet
	left    int        // how often the step may still be foreseen anew
}

// rescales bounds the times that the tape is rewritten within a step.
const rescales = 12

func (s *scale) add(slots []Slot, order []Entry) {
	var at []uint32
	for i, e := range order {
		if e.Size != 0 && e.Offset&EntryPool == 0 && slots[e.Slot].Spread != 0 {
			at = append(at, uint32(i))
		}
	}
	s.entries = append(s.entries, at)
}

func (s *scale) restart() { s.width, s.left = 0, rescales }

// tell takes in a request of n bytes at an entry whose size was not foreseen. A
// position of larger spread is believed over one of smaller: sizes are rounded,
// so it tells more exactly.
func (t *Tape) tell(at uint32, n uint64) {
	s, slot := &t.scale, &t.slots[t.Entries[at].Slot]
	width, least := uint64(slot.Spread), uint64(slot.Size-slot.Spread)
	if width == 0 || s.left == 0 || n < least || width < s.width/8 {
		return
	}
	s.width = width
	s.left--
	share := float64(n-least) / float64(width)
	for _, i := range t.scale.entries[t.order] {
		if i <= at {
			continue
		}
		e := &t.Entries[i]
		slot := &t.slots[e.Slot]
		size := uint64(mem.Round(slot.Size - slot.Spread + mem.Bytes(share*float64(slot.Spread))))
		if size > uint64(slot.Size) {
			size = varying // beyond its slot: for the pool
		}
		e.Size = size | e.Size&marked
	}
}
