// Package porttest is the one suite that every implementation of actors.Port
// passes: the one in Go's memory, and the one in memory that is shared with C,
// whose threads serve requests and frees in it.
//
// A Subject is a port with the program's side of it: threads that ask for blocks
// and free them while somebody else builds, serves, replaces and drops tapes. The
// suite drives both sides and compares with a naive model: which blocks live where,
// what was observed, what the load is, and which frees reached the pool. What may be
// done late (a free that was announced while another had the lock) is compared once
// it must be done.
package porttest

import (
	"testing"

	"stalloc/actors"
	"stalloc/internal/mem"
)

// Subject is a port and the program's threads.
type Subject interface {
	actors.Port
	// Alloc serves a request as a thread of the program is served: 0 if no tape has
	// a slot for it.
	Alloc(asked mem.Bytes) mem.Addr
	// Free frees a block as a thread of the program does.
	Free(addr mem.Addr)
	// Announces reports whether Free returns while another has the port's lock, and
	// leaves the free to whoever has it. Otherwise Free waits.
	Announces() bool
	// Look is what a statistics call of the program does: from then on all that was
	// announced is done.
	Look()
	// Takes says that the pool has taken a block over, whose free is the pool's now.
	Takes(addr mem.Addr, asked mem.Bytes)
	// Pooled returns the addresses whose frees reached the pool since the last call,
	// and how many frees nobody knew anything of.
	Pooled() (freed []mem.Addr, unknown int)
	// Left returns the pinned blocks that were freed since the last call, which live
	// until their fences pass.
	Left() []mem.Addr
	// Load is that of the port's host.
	Load() mem.Bytes
}

// Run runs the suite. open returns a fresh port on a stream of its own, over whose
// host nothing lives and whose arenas may lie anywhere from base on.
func Run(t *testing.T, open func() (s Subject, base mem.Addr)) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"built and served", (*suite).served},
		{"orders", (*suite).orders},
		{"observed", (*suite).observed},
		{"events that do not fit", (*suite).overflow},
		{"announced", (*suite).announced},
		{"announced twice", (*suite).announcedTwice},
		{"replaced", (*suite).replaced},
		{"replaced under frees", (*suite).replacedUnderFrees},
		{"replaced again and again", (*suite).heirs},
		{"given up", (*suite).givenUp},
		{"given up under frees", (*suite).givenUpUnderFrees},
		{"dropped", (*suite).dropped},
		{"pins", (*suite).pins},
		{"pins and the lock", (*suite).pinsWait},
		{"threads", (*suite).threads},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, open)
			c.test(s)
			s.end()
		})
	}
}

func start(t *testing.T, open func() (Subject, mem.Addr)) *suite {
	s := &suite{T: t, live: make(map[mem.Addr]*block)}
	s.Subject, s.base = open()
	s.before = s.Load()
	return s
}
