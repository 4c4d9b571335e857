package stream

import (
	"fmt"
	"math/bits"
	"slices"

	"stalloc/internal/mem"
)

// Layout is what a tape needs from its builder: the arrays, filled in, ready to
// be placed in memory of the caller's choice. It is immutable: any number of tapes can be
// made from one, and making it is what takes long.
type Layout struct {
	Orders [][]Entry // in the order they were given to Lay
	Index  []uint64
	Places int

	slots   []Slot
	places  []uint32
	offsets []uint64
	pools   [2]int // places of slots without an offset: from, to
	holes   []*Holes
	shapes  []shape
	tops    []uint64
	forks   [][]fork
}

// Lay turns slots and the orders of their events into a layout. There may be
// several orders (set-up, step, evaluation) over slots in one arena. In an
// order, e >= 0 is the allocation of slot e and e < 0 the free of slot ^e. The
// slots must be those of a valid plan; Lay checks only what it relies on itself.
func Lay(slots []Slot, orders ...[]int32) (*Layout, error) {
	l := &Layout{slots: slots, places: make([]uint32, len(slots))}
	seen := make(map[uint64]uint32, len(slots))
	var arena mem.Offset
	for i, s := range slots {
		if s.Size < mem.Grain || s.Size%mem.Grain != 0 || s.Offset < 0 || mem.Bytes(s.Offset)%mem.Grain != 0 {
			return nil, fmt.Errorf("slot %d of %d bytes at offset %d is not a multiple of %d", i, s.Size, s.Offset, mem.Grain)
		}
		if uint64(s.Offset)/uint64(mem.Grain) >= maxKey {
			return nil, fmt.Errorf("slot %d lies at offset %d, beyond the largest arena of %s", i, s.Offset, mem.Bytes(maxKey)*mem.Grain)
		}
		if s.Spread < 0 || s.Spread >= s.Size || s.Spread%mem.Grain != 0 {
			return nil, fmt.Errorf("slot %d of %d bytes is said to vary by %d", i, s.Size, s.Spread)
		}
		if s.Pool {
			l.places[i] = None
			continue
		}
		if s.Spread != 0 && s.Size/mem.Grain > mostRange {
			return nil, fmt.Errorf("slot %d, whose size varies, has %d bytes: expected at most %d", i, s.Size, mostRange*mem.Grain)
		}
		arena = max(arena, s.Offset+offset(s.Size))
		place, ok := seen[uint64(s.Offset)]
		if !ok {
			place = uint32(len(l.offsets))
			seen[uint64(s.Offset)] = place
			l.offsets = append(l.offsets, uint64(s.Offset))
		}
		l.places[i] = place
	}
	l.Index = buildIndex(l.offsets)
	l.placePools(orders)
	l.Places = len(l.offsets)
	for _, order := range orders {
		entries, err := l.entries(order)
		if err != nil {
			return nil, err
		}
		l.Orders = append(l.Orders, entries)
		l.holes = append(l.holes, holesOf(slots, entries, arena))
		l.shapes = append(l.shapes, shapeOf(l, entries))
		l.tops = append(l.tops, l.top(entries))
	}
	l.forks = forksOf(l.Orders)
	return l, nil
}

func (l *Layout) entries(order []int32) ([]Entry, error) {
	entries := make([]Entry, 0, len(order)+1)
	for i, e := range order {
		slot, free := e, e < 0
		if free {
			slot = ^e
		}
		if int(slot) >= len(l.slots) {
			return nil, fmt.Errorf("event %d names slot %d of %d", i, slot, len(l.slots))
		}
		s := l.slots[slot]
		entry := Entry{Size: uint64(s.Size), Offset: uint64(s.Offset), Slot: uint32(slot), Place: l.places[slot]}
		if free {
			entry.Size = 0
		} else if s.Persist {
			entry.Offset |= EntryPersists
		}
		if !free && s.Spread != 0 {
			entry.Size = rangeOf(s.Size-s.Spread, s.Size)
		}
		if s.Pool {
			entry.Offset = EntryPool
			if !free && l.places[slot] != None {
				entry.Size = varying
			}
		}
		entries = append(entries, entry)
	}
	return append(entries, Entry{Slot: None, Place: None}), nil
}

// placePools gives a place to each slot that has no offset but a free on a tape,
// so that the tape knows which of them are live.
func (l *Layout) placePools(orders [][]int32) {
	l.pools[0] = len(l.offsets)
	for _, order := range orders {
		for _, e := range order {
			if slot := ^e; e < 0 && int(slot) < len(l.slots) && l.slots[slot].Pool && l.places[slot] == None {
				l.places[slot] = uint32(len(l.offsets))
				l.offsets = append(l.offsets, 0)
			}
		}
	}
	l.pools[1] = len(l.offsets)
}

// With returns the layout with more slots, on none of its orders: those of blocks that
// live in the arena and that a tape over it will adopt. None of them persists: where the
// arena is idle depends on those that do, so they must be among the slots of Lay.
func (l *Layout) With(more []Slot) *Layout {
	if len(more) == 0 {
		return l
	}
	w := *l
	w.slots = slices.Concat(l.slots, more)
	w.places, w.offsets, w.Index = slices.Clone(l.places), slices.Clone(l.offsets), slices.Clone(l.Index)
	if size := len(l.offsets) + len(more); 2*size > len(w.Index) {
		w.Index = make([]uint64, 2<<bits.Len(uint(size)))
		for place, offset := range l.offsets {
			if place < l.pools[0] || place >= l.pools[1] {
				enter(w.Index, offset, place)
			}
		}
	}
	for _, s := range more {
		place := placeIn(w.Index, uint64(s.Offset))
		if place == None {
			place = uint32(len(w.offsets))
			w.offsets = append(w.offsets, uint64(s.Offset))
			enter(w.Index, uint64(s.Offset), int(place))
		}
		w.places = append(w.places, place)
	}
	w.Places = len(w.offsets)
	return &w
}

// Offsets returns the offset of each place; zero for one that has none.
func (l *Layout) Offsets() []uint64 { return l.offsets }
