// Package host is the program's side of a device, as actors see it. In a training process that is
// C, whose threads serve most requests themselves in memory that they share with Go. In a Go
// program that embeds the allocator, and in a replay, it is a Model, where every request is a
// message to an actor.
//
// One lock guards all of it: the index of free and live blocks, the cursors in the schedules, and
// the log of requests and frees. The pool actor holds the lock for as long as a message takes,
// driver calls included; others for a few loads and stores.
package host

import (
	"stalloc/engine/index"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// Host is the program's side of a device.
type Host interface {
	Lock
	Program
	Cursors
	Log
}

// Lock is the device's lock, with what the fast path may do while Go does not hold it.
type Lock interface {
	Lock()
	Unlock()
	// SetBudget says what the fast path may serve between Unlock and the next Lock from Go. Before
	// the first call that is nothing. Locked.
	SetBudget(Budget)
}

// Budget is what the fast path may serve before a request must enter Go.
type Budget struct {
	Ops     uint64    // requests and frees
	MaxSize mem.Bytes // of a request that no cursor expects
}

// Program is what the program's side knows and the allocator does not.
type Program interface {
	// Begin is called once, when the device is opened: its addresses are [base, base+window), and
	// requests up to small bytes have an arena of their own. Not locked.
	Begin(base mem.Addr, window, small mem.Bytes)
	// Index makes the index of the device's blocks.
	Index() index.Index
	// TakeLoad returns the rounded bytes of live blocks, and their peak since the last call.
	// Locked.
	TakeLoad() (now, most mem.Bytes)
	// Captures returns how many private pools are being allocated to by threads that may capture a
	// stream into a graph: whoever does has one for it.
	Captures() int
	// Persistent reports whether a stream is never destroyed.
	Persistent(id mem.StreamID) bool
	// MayWait reports whether the calling thread holds nothing that others may need while it waits.
	// Not locked.
	MayWait() bool
}

// Cursors follow schedules: each stream has one for large and one for small requests.
type Cursors interface {
	// Build makes a schedule of entries; nil of none, or where the host has no memory. Not locked.
	Build(entries []schedule.Entry) *Schedule
	// SetSchedule points a cursor at the first entry of a schedule, perhaps of the same one as
	// before; nil: the cursor expects nothing. Locked.
	SetSchedule(id mem.StreamID, cursor int, s *Schedule)
	// Next is the cursor's Next. Locked.
	Next(id mem.StreamID, cursor int, units uint64) schedule.Entry
	// Count tells a cursor whether a request was served at its planned offset. Locked.
	Count(id mem.StreamID, cursor int, hit bool)
	// Served returns what all cursors of a stream have counted. Locked.
	Served(id mem.StreamID) (hits, misses uint64)
}

// Schedule is a list of planned offsets, and what the host keeps of it. Several steps may follow
// the same one. The collector frees it, the host's part included.
type Schedule struct {
	Entries []schedule.Entry
	Host    any // the host's part
}

// Log is the log of requests and frees since the last boundary.
type Log interface {
	// Note appends to it. Locked.
	Note(e schedule.Event)
	// Logged returns how many events there are since Take. Locked.
	Logged() int
	// Take returns the log, which begins anew, and how many events were lost because it was full.
	// Whoever has read the events returns them. Locked.
	Take() (events []schedule.Event, lost uint64)
	// Return takes back what Take returned. Not locked.
	Return(events []schedule.Event)
	// Observe switches the log on and off. Locked.
	Observe(on bool)
}

// MostEvents is how many events are kept between two boundaries; a step of more is not planned. It
// bounds memory: 16 bytes an event.
const MostEvents = 1 << 20
