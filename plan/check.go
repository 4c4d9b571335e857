package plan

import (
	"fmt"
	"math"
	"sort"

	"stalloc/internal/mem"
)

// maxArena bounds every offset, so that sums of a few of them cannot overflow.
// No device's address space is larger.
const maxArena mem.Bytes = 1 << 56

// Validate checks that the plan may be served: it walks every tape from the
// set of slots that persist, as the device would, and requires at each place
// that the live slots are pairwise disjoint, inside the arena and aligned, that
// each slot is allocated once, freed once behind it, and live behind its tape
// only if it persists. It trusts no field and shares no code with the solver.
func (p *Plan) Validate() error {
	for i := range p.Streams {
		s := &p.Streams[i]
		if i > 0 && s.Ordinal <= p.Streams[i-1].Ordinal || s.Ordinal < 0 {
			return fmt.Errorf("plan: stream %d has ordinal %d: expected them to rise from zero", i, s.Ordinal)
		}
		if err := s.validate(); err != nil {
			return fmt.Errorf("plan: stream %d: %w", s.Ordinal, err)
		}
	}
	return nil
}

func (s *Stream) validate() error {
	if s.Arena < 0 || s.Arena > maxArena || s.Arena%mem.HandleSize != 0 {
		return fmt.Errorf("arena of %d bytes: expected a multiple of %d up to %d", s.Arena, mem.HandleSize, maxArena)
	}
	for _, w := range []float64{s.Weights.Size, s.Weights.Duration, s.Weights.Load, s.Weights.Lower, s.Weights.Upper} {
		if math.IsNaN(w) || math.IsInf(w, 0) {
			return fmt.Errorf("priority weight %v: expected a finite number", w)
		}
	}
	var top mem.Offset
	for i, slot := range s.Slots {
		if slot.Size <= 0 || slot.Size > maxArena || slot.Size%mem.Grain != 0 {
			return fmt.Errorf("slot %d has size %d: expected a positive multiple of %d", i, slot.Size, mem.Grain)
		}
		if slot.Spread < 0 || slot.Spread >= slot.Size || slot.Spread%mem.Grain != 0 {
			return fmt.Errorf("slot %d has spread %d: expected a multiple of %d less than its size, %d", i, slot.Spread, mem.Grain, slot.Size)
		}
		if slot.Offset < 0 || slot.Offset > mem.Offset(maxArena) || slot.Offset%mem.Offset(mem.Grain) != 0 {
			return fmt.Errorf("slot %d has offset %d: expected a multiple of %d", i, slot.Offset, mem.Grain)
		}
		if !slot.Pool && mem.Bytes(slot.End()) > s.Arena {
			return fmt.Errorf("slot %d ends at %d, outside the arena of %d bytes", i, slot.End(), s.Arena)
		}
		if slot.Pool && (slot.Persist || slot.Offset != 0) {
			return fmt.Errorf("slot %d is the pool's and yet has a place in the arena", i)
		}
		if !slot.Pool {
			top = max(top, slot.End())
		}
	}
	if s.Makespan != mem.Bytes(top) {
		return fmt.Errorf("makespan %d: the highest slot ends at %d", s.Makespan, top)
	}
	return s.walkTapes()
}

// walkTapes plays the tapes one after another.
func (s *Stream) walkTapes() error {
	w := walk{slots: s.Slots, seen: make([]bool, len(s.Slots)), ended: make([]bool, len(s.Slots))}
	for i, tape := range s.Tapes {
		if tape.Kind > Steady || tape.Kind == Prologue && i != 0 {
			return fmt.Errorf("tape %d is of kind %d (%v): expected at most one prologue, then steady tapes", i, tape.Kind, tape.Kind)
		}
		if b := tape.Boundaries; tape.Kind == Prologue && (b < 1 || b > maxBoundaries) || tape.Kind == Steady && b != 0 {
			return fmt.Errorf("%v tape %d spans %d boundaries: expected 1 to %d of a prologue, none of a steady tape", tape.Kind, i, b, maxBoundaries)
		}
		for place, e := range tape.Entries {
			if err := w.step(tape.Kind, e); err != nil {
				return fmt.Errorf("%v tape %d, place %d: %w", tape.Kind, i, place, err)
			}
		}
		for _, slot := range w.live {
			if !s.Slots[slot].Persist {
				return fmt.Errorf("slot %d is still live behind %v tape %d and does not persist", slot, tape.Kind, i)
			}
		}
	}
	for slot, seen := range w.seen {
		if !seen {
			return fmt.Errorf("slot %d is on no tape", slot)
		}
	}
	if w.peak != s.LowerBound {
		return fmt.Errorf("lower bound %d: the peak load is %d", s.LowerBound, w.peak)
	}
	return nil
}

// walk is the state of a stream at one place of a tape.
type walk struct {
	slots      []Slot
	seen       []bool
	ended      []bool  // slots of the pool whose free has come
	live       []int32 // by offset, pairwise disjoint
	load, peak mem.Bytes
}

func (w *walk) step(kind TapeKind, e Entry) error {
	slot := e.Slot()
	if int(slot) >= len(w.slots) {
		return fmt.Errorf("slot %d of %d", slot, len(w.slots))
	}
	s := w.slots[slot]
	if s.Pool {
		return w.pool(slot, e.Frees())
	}
	at := sort.Search(len(w.live), func(k int) bool { return w.slots[w.live[k]].Offset >= s.Offset })
	if e.Frees() {
		if at == len(w.live) || w.live[at] != slot {
			return fmt.Errorf("slot %d is freed while not live", slot)
		}
		if s.Persist {
			return fmt.Errorf("slot %d is freed although it persists", slot)
		}
		w.live = append(w.live[:at], w.live[at+1:]...)
		w.load -= s.Size
		return nil
	}
	if w.seen[slot] {
		return fmt.Errorf("slot %d is allocated a second time", slot)
	}
	if s.Persist && kind != Prologue {
		return fmt.Errorf("slot %d persists but is allocated at every step", slot)
	}
	for k := max(at-1, 0); k <= at && k < len(w.live); k++ {
		if o := w.slots[w.live[k]]; o.Offset < s.End() && s.Offset < o.End() {
			return fmt.Errorf("slot %d [%d, %d) overlaps live slot %d [%d, %d)", slot, s.Offset, s.End(), w.live[k], o.Offset, o.End())
		}
	}
	w.seen[slot] = true
	w.live = append(w.live, 0)
	copy(w.live[at+1:], w.live[at:])
	w.live[at] = slot
	w.load += s.Size
	w.peak = max(w.peak, w.load)
	return nil
}

// pool is step for a slot without offset, whose free may be left out.
func (w *walk) pool(slot int32, frees bool) error {
	switch {
	case !frees && !w.seen[slot]:
		w.seen[slot] = true
	case frees && w.seen[slot] && !w.ended[slot]:
		w.ended[slot] = true
	case frees:
		return fmt.Errorf("slot %d of the pool is freed while not live", slot)
	default:
		return fmt.Errorf("slot %d of the pool is allocated a second time", slot)
	}
	return nil
}
