package actors

import (
	"stalloc/engine/index"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// Host is the program's side of a device. In a training process that is C, whose threads
// serve most requests themselves in the memory they share with Go; in a Go program that
// embeds the allocator, and in a replay, it is a GoHost.
//
// One lock guards all of it: the index of the range, the cursors, and the log of what was
// requested and freed. The pool's actor has it for as long as a message takes, driver calls
// included; everybody else for a few loads and stores.
type Host interface {
	// Begin says when the device is opened where its addresses lie, and up to which size requests
	// have an arena of their own. Index then makes the index of its range. Not locked.
	Begin(base mem.Addr, window, small mem.Bytes)
	Index() index.Index
	// Pools returns how many private pools are being allocated to: whoever captures a stream
	// into a graph has one for it.
	Pools() int
	// Lasts reports whether a stream is there as long as the program.
	Lasts(id mem.StreamID) bool
	// MayWait reports whether the calling thread holds nothing that others may need while it waits.
	// Not locked.
	MayWait() bool
	// Load returns the rounded bytes of live blocks.
	Load() mem.Bytes
	Lock()
	Unlock()
	// Allow says what requests and frees the host may serve without a message, from when the
	// lock is left until it is taken again from Go. None before the first call. Locked.
	Allow(t Terms)
	// Build makes a schedule of entries; nil of none, or where the host has no memory. Not locked.
	Build(entries []schedule.Entry) *Schedule
	// Serve has a cursor of a stream follow a schedule from its first entry on, in place of what it
	// followed: the same one, perhaps. Nil: nothing. Locked.
	Serve(id mem.StreamID, cursor int, r *Schedule)
	// Next is the cursor's Next, Count tells it whether a request was served at its planned offset,
	// while there is a schedule, and Served returns what all cursors of the stream have counted.
	// Locked.
	Next(id mem.StreamID, cursor int, units uint64) schedule.Entry
	Count(id mem.StreamID, cursor int, hit bool)
	Served(id mem.StreamID) (hits, misses uint64)
	// Note appends to the log. Locked.
	Note(e schedule.Event)
	// Logged returns how many events there are in the log since Take. Locked.
	Logged() int
	// Take returns the log, which begins anew, and how many events were lost because it was full.
	// Whoever has read the events returns them. Locked.
	Take() (events []schedule.Event, lost uint64)
	// Return takes back what Take returned. Not locked.
	Return(events []schedule.Event)
	// Observe says whether there is to be a log. Locked.
	Observe(on bool)
}

// Schedule is a list of planned offsets, and what the host keeps of it. It may be followed more
// than once. The collector frees it, the host's part included.
type Schedule struct {
	Entries []schedule.Entry
	Host    any // the host's
}

// Terms are what a host may serve without a message.
type Terms struct {
	Left uint64    // so many requests and frees
	Most mem.Bytes // requests up to this, that no cursor expects
}

// MostEvents is how many events are kept between two boundaries; a step of more is not
// planned. It bounds memory: 16 bytes an event.
const MostEvents = 1 << 20
