package stream

import (
	"fmt"
	"math"
	"sort"

	"stalloc/internal/mem"
)

// None is the slot of an entry that has none (the end of the tape), and the
// answer of functions that return a place when there is none.
const None = ^uint32(0)

// Slot is one planned request as the builder of a tape gives it.
type Slot struct {
	Offset mem.Offset // from the base of the arena, a multiple of mem.Grain
	Size   mem.Bytes  // rounded
	// Persist marks a block that outlives its tape (weights, optimizer state).
	// It is expected to be live at every place of every other tape.
	Persist bool
	// Pool marks a request that is expected but has no place in the arena. Its free
	// is on the tape if it can be foreseen.
	Pool bool
	// Spread is how much smaller than Size the request may be.
	Spread mem.Bytes
}

// Entry is one event of the tape. The layout is shared with C.
type Entry struct {
	Size   uint64 // allocation: the slot's rounded size, or a range (range.go); free and end: 0
	Offset uint64 // of the slot, from the base of the arena, and the flags below
	Slot   uint32 // None at the end of the tape
	Place  uint32 // index of the slot's offset in Tape.Live
}

// Flags in the Offset of an allocation. Offsets are multiples of mem.Grain, so
// these bits are free.
const (
	EntryPersists = 1 << iota // the slot persists
	EntryPool                 // the pool serves it
	entryFlags    = EntryPersists | EntryPool
)

func (e *Entry) offset() uint64 { return e.Offset &^ entryFlags }

// Live tells what lies at one place of the arena. The slots of a tape start at
// few distinct offsets; each distinct offset is a place, and since live slots
// are disjoint at most one live slot starts there. The layout is shared with C.
type Live struct {
	Slot  uint32 // the live slot's index + 1; 0: nothing live starts here
	Flags uint32
	Asked uint64 // bytes the request asked for, before rounding
}

// Flags of a live slot.
const (
	FlagOwed     = 1 << iota // the cursor is past its free
	FlagPinned               // another stream used it: its free must wait for a fence
	FlagPersists             // its slot persists
)

// MaxOwed bounds the set of owed slots that a candidate is tested against.
const MaxOwed = 64

// State is the part of a tape that changes while it serves. The layout is
// shared with C, and whoever changes it holds the stream's lock.
type State struct {
	Base     uint64 // address of the arena
	Cursor   uint32 // next entry
	Owed     uint32 // number of owed slots; invariant: Owed == |{p: Live[p].Flags&FlagOwed != 0}|
	Partial  uint32 // not 0: the arena lacks memory that the order needs, see Cover
	Off      uint32 // not 0: the tape serves nothing until the next step
	LiveN    uint32 // invariant: LiveN == |{p: Live[p].Slot != 0}|
	PersistN uint32 // how many of them persist
	Hits     uint64
	Misses   uint64
	Resyncs  uint64 // jumps of the cursor after a mismatch
	Late     uint64 // frees that came after the cursor had passed them
	OwedAt   [MaxOwed]uint32
	Freed    uint32 // slots freed so far
	_        uint32
	Log      [LogLength]Freeing // the last of them, a ring: free n is at n % LogLength
}

// LogLength is how many frees State remembers for the follower, a power of two.
const LogLength = 64

// Freeing is the free of a slot and where the cursor was then. The layout is
// shared with C.
type Freeing struct{ Slot, Cursor uint32 }

// Tape is the expected order of requests and frees of a step on one stream and
// the state of serving it. Entries, Live, Index and State may lie in memory
// shared with C; Sizes and the matcher's memory belong to Go alone.
type Tape struct {
	Entries []Entry   // the order that is being served, an end entry last
	Orders  [][]Entry // all of them
	Live    []Live    // by place
	Index   []uint64
	State   *State
	// Hosts says that whoever serves misses knows guests and gives tickets back.
	// Otherwise there are neither.
	Hosts bool

	slots   []Slot
	places  []uint32 // by slot
	offsets []uint64 // by place
	pools   int      // of places, the last ones: those of slots without an offset
	follow  *follower
	holes   []*Holes // by order
	guests  guests
	tuning  Tuning
	order   int      // of Orders, the one in Entries
	forks   [][]fork // nil: there is one order
	strayed bool     // the step has left its order since it began
	covered uint64   // bytes of memory that the arena has
	tops    []uint64 // by order: how many it needs
}

// Layout is what a tape needs from its builder: the arrays, filled in, ready to
// be placed in memory of the caller's choice.
type Layout struct {
	Orders [][]Entry // in the order they were given to Lay
	Index  []uint64
	Places int

	slots   []Slot
	places  []uint32
	offsets []uint64
	pools   int
	holes   []*Holes
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
	}
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
	for _, order := range orders {
		for _, e := range order {
			if slot := ^e; e < 0 && int(slot) < len(l.slots) && l.slots[slot].Pool && l.places[slot] == None {
				l.places[slot] = uint32(len(l.offsets))
				l.offsets = append(l.offsets, 0)
				l.pools++
			}
		}
	}
}

// New makes a tape over a layout in Go's own memory, for replay and tests.
func New(l *Layout, base mem.Addr) *Tape {
	return Bind(l, l.Orders, make([]Live, l.Places), l.Index, &State{Base: uint64(base)})
}

// Bind makes a tape over arrays that the caller placed, which must hold what
// the layout says. It serves the first order.
func Bind(l *Layout, orders [][]Entry, live []Live, index []uint64, state *State) *Tape {
	t := &Tape{Entries: orders[0], Orders: orders, Live: live, Index: index, State: state,
		slots: l.slots, places: l.places, offsets: l.offsets, forks: forksOf(orders),
		pools: l.pools, follow: newFollower(l), holes: l.holes, covered: math.MaxUint64}
	for _, order := range orders {
		t.guests.marks = append(t.guests.marks, make([]uint8, len(order)))
		t.tops = append(t.tops, t.top(order))
	}
	t.tuning = Tunings[0]
	return t
}

// Offsets returns the offset of each place; zero for one that has none.
func (l *Layout) Offsets() []uint64 { return l.offsets }

// Slot returns slot i as it was given to Lay.
func (t *Tape) Slot(i uint32) Slot { return t.slots[i] }

// The index maps offsets to places: open addressing, linear probing, at most
// half full, its length a power of two. A cell is (offset/Grain + 1) << 32 |
// place; 0 is empty. C probes it with the same hash.
const maxKey = 1<<32 - 1

func hashKey(key uint64, mask uint64) uint64 { return (key * 0x9E3779B97F4A7C15 >> 32) & mask }

func buildIndex(offsets []uint64) []uint64 {
	size := 16
	for size < 2*len(offsets) {
		size *= 2
	}
	index, mask := make([]uint64, size), uint64(size-1)
	// Insert in address order: a layout must not depend on the order of slots.
	order := make([]int, len(offsets))
	for i := range order {
		order[i] = i
	}
	sort.Slice(order, func(a, b int) bool { return offsets[order[a]] < offsets[order[b]] })
	for _, place := range order {
		key := offsets[place]/uint64(mem.Grain) + 1
		at := hashKey(key, mask)
		for index[at] != 0 {
			at = (at + 1) & mask
		}
		index[at] = key<<32 | uint64(place)
	}
	return index
}

// place finds the place at an offset, or None.
func (t *Tape) place(offset uint64) uint32 {
	if offset%uint64(mem.Grain) != 0 {
		return None
	}
	key, mask := offset/uint64(mem.Grain)+1, uint64(len(t.Index)-1)
	for at := hashKey(key, mask); t.Index[at] != 0; at = (at + 1) & mask {
		if t.Index[at]>>32 == key {
			return uint32(t.Index[at])
		}
	}
	return None
}
