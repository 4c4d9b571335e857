package stream

import (
	"math"
	"slices"

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
	FlagFreed                // pinned, and freed by the program: live until Release
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
// shared with C; the rest belongs to Go alone.
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
	pools   [2]int   // places of slots without an offset: from, to
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

// New makes a tape over a layout in Go's own memory, for programs that call from Go.
func New(l *Layout, base mem.Addr) *Tape {
	orders := make([][]Entry, len(l.Orders))
	for i, order := range l.Orders {
		orders[i] = slices.Clone(order)
	}
	return Bind(l, orders, make([]Live, l.Places), l.Index, &State{Base: uint64(base)})
}

// Bind makes a tape over arrays that the caller placed, which must hold what
// the layout says. It serves the first order.
func Bind(l *Layout, orders [][]Entry, live []Live, index []uint64, state *State) *Tape {
	t := &Tape{Entries: orders[0], Orders: orders, Live: live, Index: index, State: state,
		slots: l.slots, places: l.places, offsets: l.offsets, forks: l.forks,
		pools: l.pools, follow: newFollower(l), holes: l.holes, covered: math.MaxUint64, tops: l.tops}
	for _, order := range orders {
		t.guests.marks = append(t.guests.marks, make([]uint8, len(order)))
	}
	t.tuning = Tunings[0]
	return t
}

// Slot returns slot i as it was given to Lay.
func (t *Tape) Slot(i uint32) Slot { return t.slots[i] }
