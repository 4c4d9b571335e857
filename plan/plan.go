package plan

import (
	"slices"

	"stalloc/internal/mem"
)

// Entry is one place of a tape: e >= 0 is the allocation of slot e, e < 0 is
// the free of slot ^e.
type Entry int32

// Slot returns the slot that the entry is about.
func (e Entry) Slot() int32 {
	if e < 0 {
		return int32(^e)
	}
	return int32(e)
}

// Frees reports whether the entry frees its slot.
func (e Entry) Frees() bool { return e < 0 }

// Slot is one planned request.
type Slot struct {
	Size    mem.Bytes
	Offset  mem.Offset // from the start of the stream's arena
	Persist bool       // never freed by a tape: lives on through every later one
	// Pool marks a request that is known to come but has no offset: its block
	// crosses the step, is used by another stream, or is of another size in every
	// step. It is on the tape so that the requests around it stay in place, and
	// its free is, where it is foreseen, so that it can be a guest until then.
	Pool bool
	// Spread is how much smaller than Size, which is the largest size seen at this
	// position, the smallest was. A slot with an offset has one only in an
	// envelope, see Run.
	Spread mem.Bytes
}

// End returns the offset behind the slot's last byte.
func (s Slot) End() mem.Offset { return s.Offset + mem.Offset(s.Size) }

// Varies reports whether a slot is of no fixed size.
func (s *Stream) Varies() bool {
	return slices.ContainsFunc(s.Slots, func(s Slot) bool { return s.Spread != 0 })
}

// TapeKind says when a tape is served.
type TapeKind uint8

const (
	// Prologue is set-up and the first step: served once, at the start of a run.
	Prologue TapeKind = iota
	// Steady is served at any step after the prologue, if there is one. A plan
	// has one for each kind of step.
	Steady
)

func (k TapeKind) String() string {
	switch k {
	case Prologue:
		return "prologue"
	case Steady:
		return "steady"
	}
	return "unknown"
}

// Tape is the expected order of the planned requests and frees of a step.
type Tape struct {
	Kind TapeKind
	// Boundaries is how many step boundaries a prologue spans, the one that ends
	// it included: one where the first step's end is the first boundary, two
	// where set-up ends with one of its own. Zero for a steady tape.
	Boundaries int
	Entries    []Entry
}

// maxBoundaries bounds what a prologue may span. Set-up and one step have few.
const maxBoundaries = 1 << 10

// Stream is the part of a plan that serves one CUDA stream.
type Stream struct {
	Ordinal    int       // place of the stream in the order of first requests
	Arena      mem.Bytes // size of the arena, a multiple of mem.HandleSize
	LowerBound mem.Bytes // peak load of the slots: no arena is smaller
	Makespan   mem.Bytes // end of the highest slot, before rounding to handles
	Slots      []Slot
	Tapes      []Tape
	Order      string  // method that found the offsets
	Weights    Weights // its priority, to warm-start the next plan from
}

// Plan holds the slots and tapes of a training step. It is immutable once
// published.
type Plan struct {
	Key     uint64 // of the request sequence it was made for, see KeyOf
	Streams []Stream
	// Late, if not zero, is where steps end: the prologue's last one, and those behind
	// it, in this valley behind their mark.
	Late Valley
}
