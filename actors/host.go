package actors

import (
	"stalloc/engine/onerange"
	"stalloc/internal/mem"
	"stalloc/stream/brief"
	"stalloc/stream/wish"
)

// Host is the program's side of a device. In a training process that is C, whose threads
// serve most requests themselves in the memory they share with Go; in a Go program that
// embeds the allocator, and in a replay, it is a GoHost.
//
// One lock guards all of it: the state of the range, the tapes, and the log of what was
// requested and freed. The pool's actor has it for as long as a message takes, driver calls
// included; everybody else for a few loads and stores.
type Host interface {
	// Load returns the rounded bytes of live blocks.
	Load() mem.Bytes
	Lock()
	Unlock()
	// Tapes returns the tapes of a stream; made on first sight. Locked.
	Tapes(id mem.StreamID) *[wish.Tapes]wish.Tape
	// Build makes a reel of wishes; of none, nil. One for the tape Foreseen is for no other, and made
	// at once; else it takes some milliseconds. Not locked.
	Build(entries []wish.Entry, foreseen bool) *Reel
	// Serve has a tape of a stream play a reel from its first entry on, in place of what it
	// played: the same reel, perhaps. Nil: nothing. It neither makes nor frees anything. Locked.
	Serve(id mem.StreamID, tape int, r *Reel)
	// Note appends to the log. Locked.
	Note(e wish.Event)
	// Events returns the log since Clear, until the lock is left. Locked.
	Events() []wish.Event
	// Clear begins the log anew, and returns how many events were lost because it was full.
	// Locked.
	Clear() (lost uint64)
	// Brief reports whether a large request of size units of 512 bytes is for a block that
	// will be gone at its step's peak, by what the log says of those before. Locked.
	Brief(size uint64) bool
	// SetBrief says when it will be. Locked.
	SetBrief(t *brief.Table)
	// Observe says whether there is to be a log. Locked.
	Observe(on bool)
}

// Reel is a list of wishes and all that serving them takes. It may be played more than once.
// The collector frees it, what the host has made of it included.
type Reel struct {
	Entries []wish.Entry
	Host    any // the host's
}

// Borrower is a Host with a quick case: whenever the lock is free, it serves requests from
// the range and from tapes without a message.
type Borrower interface {
	// Lend gives the state away, and leaves the lock.
	Lend(l *onerange.Lent, t Terms)
	// TakeBack takes the lock, and returns what the borrower has made of the counters.
	// False: an equation did not hold, and the state is of no use any more.
	TakeBack(c *onerange.Counters) bool
}

// Terms are what a borrower is to leave to the device.
type Terms struct {
	Until    uint64 // everything, once the engine's clock says so
	Most     uint64 // requests of more units, where no tape serves them
	TapeOnly bool   // all requests that no tape serves
}

// MostEvents is how many events are kept between two boundaries; a step of more is not
// planned. It bounds memory: 16 bytes an event.
const MostEvents = 1 << 20
