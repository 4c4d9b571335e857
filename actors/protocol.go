package actors

import (
	"sync/atomic"
	"time"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream/schedule"
)

// The protocol: who sends what to whom, what is answered, what may be lost. The
// threads are the program's.
//
//	message        from                  to          answer               may be lost
//	allocRequest   threads               stream      where it is planned  no
//	order          supervisor            stream      done                 no
//	order          threads               supervisor  done                 no
//	order          threads, supervisor   pool        done                 no
//	allocRequest   threads               pool        address              no
//	freeRequest    threads               pool        what was freed       no
//	planLoaded     threads               planner     none                 yes: all is learned anew
//	lastLook       threads               planner     done                 no
//	stepEnded      supervisor            planner     none                 yes: it is not planned
//	stepEnded      supervisor            native      none                 yes: the estimate ends there
//	order          planner               pool        not waited for       yes: the next step tells as much
//	schedulesReady planner               supervisor  none                 yes: the next plan replaces it
//
// Everything that is answered carries its answer, an error besides; the sender
// waits for it only if another thread is working off the mailbox at that moment.
//
// Whoever waits for an answer stands above whom he asks, so there is no cycle: threads
// ask the supervisor, streams and the pool, the supervisor asks streams and the pool, and
// those ask nobody. A message without an answer is never waited for: where its receiver is
// at work already, even further up on the same thread, it is queued.

// allocRequest asks a stream where a block is planned, and the pool for the block.
type allocRequest struct {
	answer
	size   mem.Bytes
	stream mem.StreamID
	pool   uint64
	small  int // 1 if the request is small
	// answer of the stream: where the block is to lie if it is free there; 0: anywhere
	planned mem.Addr
	addr    mem.Addr // answer
	// Whether the thread can wait for memory that other streams are about to be done with, and
	// since when and until when it does (patience.go).
	hurried, waited bool
	stalled         bool // the device came no further meanwhile
	from, until     time.Duration
	// when the oldest mark that had not passed at the last look was put
	mark    time.Duration
	lenders []mem.StreamID // the streams that lend memory for it, once they do
	again   bool           // answer: ask again soon
	last    bool           // it waits for lenders, or is refused (scarce.go)
}

// freeRequest gives a block back.
type freeRequest struct {
	answer
	addr  mem.Addr
	past  bool         // the program has gone on since: streams that used the block may be gone
	freed engine.Block // answer
}

// order has a stream, the supervisor or the pool do something with its state.
type order[Actor any] struct {
	answer
	do func(Actor) error
	// in its place where the pool is broken; nil: nothing, which is an error
	broken func(Actor) error
}

// planLoaded tells the planner what an earlier run has left.
type planLoaded struct{ plan *plan.Plan }

// stepEnded is what was observed of a step.
type stepEnded struct {
	host      Host         // whose the events are
	readers   atomic.Int32 // that have not read them yet
	events    []schedule.Event
	lost      uint64 // events that the log had no room for
	streams   map[uint16]mem.StreamID
	order     []mem.StreamID              // in the order of their first requests
	gaps      map[arenaKey][]engine.Range // at the end of the step
	memory    PoolStats                   // and what the pool had
	limit     mem.Bytes                   // that the program has set, 0: none
	schedules uint64                      // the number of those that were carried out last
	gap       bool                        // steps before it were dropped
}

// mostWaiting bounds the events that wait for the planner, and for the simulation of native:
// steps may end faster than those look at them.
const mostWaiting = MostEvents

// read says that one of the readers is done.
func (m *stepEnded) read() {
	if m.readers.Add(-1) == 0 && m.host != nil {
		m.host.Return(m.events)
	}
}

// weight is how many events' memory a step takes.
func (m *stepEnded) weight() int64 {
	const empty = 16 // without events and gaps
	return int64(len(m.events) + empty*(1+len(m.gaps)))
}
