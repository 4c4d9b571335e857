package actors

import (
	"time"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream"
)

// The protocol: who sends what to whom, what is answered, what may be lost. The
// threads are the program's, and the goroutine that maps an arena ahead. The solver is
// the goroutine that makes or saves a plan; with Options.Inline, the planner itself.
//
//	message          from                  to          answer                          may be lost
//	allocRequest     threads, supervisor   pool        address                         no
//	freeRequest      threads, supervisor   pool        what was freed                  no
//	recordRequest    threads               pool        done                            no
//	fenceRequest     threads               pool        done                            no: the slot would stay pinned
//	poolRequest      threads, supervisor,  pool        depends on the verb             no
//	                 solver
//	prepareRequest   threads, supervisor   pool        whether something is left       no
//	dissolveRequest  supervisor            pool        done                            no
//	serveRequest     threads               stream      address or miss; what the step  no
//	                                                   is short of, or that it is lost
//	settleRequest    threads               stream      done                            no
//	boundary         supervisor            stream      observation                     no
//	admitRequest     threads               supervisor  done                            no
//	startRequest     threads               supervisor  done                            no
//	growRequest      threads               supervisor  done                            no
//	lostRequest      threads               supervisor  whether an arena was given up   no
//	stepRequest      threads               supervisor  done                            no
//	stepsWait        supervisor            planner     none                            no: steps would be dropped
//	planLoaded       supervisor            planner     none                            yes: the plan would not be judged
//	planReady        planner               supervisor  none                            yes: the next plan replaces it
//	solved           solver                planner     none                            no: planning would stop
//	refined          solver                planner     none                            yes: the plan stays larger
//
// Everything that is answered carries its answer, an error besides; the sender
// waits for it only if another thread is working off the mailbox at that moment.
//
// Whoever waits for an answer stands above whom he asks, so there is no cycle:
// threads ask the supervisor, streams and the pool, the supervisor asks streams and
// the pool, the solver asks the pool, and streams and the pool ask nobody. What
// a stream or the pool finds out that concerns the supervisor (a lost step, memory that
// the arena lacks, a refused request) goes to the thread that asked, and that one
// tells the supervisor. A message without an answer is never waited for: where its
// receiver is at work already, even further up on the same thread, it is queued.

// allocRequest asks the pool for a block.
type allocRequest struct {
	answer
	size   mem.Bytes
	stream mem.StreamID
	pool   uint64
	whole  bool      // an arena
	after  mem.Addr  // not 0: lengthen the arena whose last part this is
	room   mem.Bytes // addresses to set aside for an arena
	most   int       // not 0: refuse rather than hold more handles
	wish   mem.Addr  // where the block is to lie if it is free there; 0: anywhere
	hit    bool      // answer: it lies where it was wished
	wished bool      // answer: the step was planned
	addr   mem.Addr
}

// freeRequest gives a block of the pool back.
type freeRequest struct {
	answer
	addr  mem.Addr
	arena bool // an arena and no block is meant
	freed Freed
}

// dissolveRequest gives an arena to the pool, but for its first size bytes and the
// blocks that live above.
type dissolveRequest struct {
	answer
	arena *arena
	parts []mem.Addr
	size  mem.Bytes
	keep  []engine.Range
}

// prepareRequest asks the pool to map pages ahead for an arena on a stream.
type prepareRequest struct {
	answer
	stream mem.StreamID
	size   mem.Bytes // of the arena, to begin; 0: go on
	most   int       // pages to map
	done   bool      // answer: nothing is left to map
}

// recordRequest says that another stream uses a block of the pool.
type recordRequest struct {
	answer
	addr   mem.Addr
	stream mem.StreamID
}

// fenceRequest asks the pool to release a pinned slot of a tape once the
// streams that used it have passed this point.
type fenceRequest struct {
	answer
	arena   *arena
	addr    mem.Addr
	rounded mem.Bytes
	streams []mem.StreamID
}

// verb says what a poolRequest asks for.
type verb uint8

const (
	verbBoundary verb = iota + 1 // a step ends: sticky placement starts over, fences are polled
	verbTrim                     // give idle handles back (private pool: it is no longer used)
	verbFirst                    // the first step is over, though it ends no step
	verbLimit                    // reserve at most limit bytes
	verbFind                     // the block that contains addr
	verbStats
	verbResetPeak
	verbCheck
	verbShare // let the device of ordinal peer use this one's memory
	verbClose
)

// poolRequest is everything rare that the pool is asked.
type poolRequest struct {
	answer
	verb   verb
	pool   uint64
	limit  mem.Bytes
	addr   mem.Addr
	peer   int
	stream mem.StreamID
	size   mem.Bytes   // answer to verbFind, with addr and stream
	stats  PoolStats   // answer to verbStats
	spaces []spaceStep // answer to verbBoundary, where the memory is one range for each stream
}

// serveRequest asks a stream for the slot of a request that C did not find
// under the cursor.
type serveRequest struct {
	answer
	asked  mem.Bytes
	addr   mem.Addr // 0: a miss
	ticket stream.Ticket
	lost   bool      // the step does not follow the tape any more
	lacks  mem.Bytes // the arena must have so much first
}

// settleRequest has a stream perform the frees that were announced to it.
type settleRequest struct{ answer }

// boundary tells a stream that a step ends. The stream answers with what it
// observed and goes on with the next tape.
type boundary struct {
	answer
	observed observed
}

// observed is one stream's step, on its way to the planner.
type observed struct {
	ordinal int // of the stream on its device
	events  []Event
	lost    bool         // events are missing: the step cannot be planned from
	part    *plan.Stream // what was served, nil: nothing
	gone    bool         // the step was lost to it; one in which its arena was still busy is not
	order   int          // the tape of it that the step was taken for
	hits    int64        // requests of the step served from the tape
	misses  int64        // while a tape was served
	arenas  mem.Bytes    // held at the end
}

// stepsWait says that there are steps in the planner's inbox.
type stepsWait struct{}

// stepEnded is what all streams of a device observed in a step. It waits in the inbox, and
// may be dropped there: that costs one step's observation.
type stepEnded struct {
	gap    bool // the steps before it were dropped
	found  bool // in the requests: nobody marked it
	steps  []observed
	spaces []spaceStep // where the memory is one range for each stream
	waits  *plan.Plan  // ready, and its arenas are still being mapped
	// Most that freed blocks of the pool held while other streams used them.
	pending mem.Bytes
	// Physical memory held, as long as there has been no arena in it; else 0.
	reserved mem.Bytes
}

// solved is the solver's answer to the planner.
type solved struct {
	candidate *candidate
	err       error
	took      time.Duration
}

// refined is a smaller plan for the same steps.
type refined struct {
	candidate *candidate
}

// planReady offers a plan to the supervisor, or says that none shall be served.
type planReady struct {
	plan   *plan.Plan    // nil: none
	first  int           // the tape to begin with
	tuning stream.Tuning // how steps that vary are matched
}

// planLoaded says that an earlier run's plan is served.
type planLoaded struct {
	plan *plan.Plan
}

// startRequest asks for an earlier run's plan to be served from the next request
// on. Those in skip have been served by the pool.
type startRequest struct {
	answer
	plan *plan.Plan
	lane *lane
	skip []mem.Bytes
}

// stepRequest is a step boundary of the device.
type stepRequest struct {
	answer
}

// admitRequest says that a stream the supervisor has not seen made a request.
type admitRequest struct {
	answer
}

// growRequest asks for more memory in the arena of a stream that begins with the plan
// of an earlier run.
type growRequest struct {
	answer
	lane *lane
	need mem.Bytes // from the arena's base on
}

// lostRequest says that a stream's step does not follow its plan, or that memory
// has run out: the arena is better used by the pool until the next boundary.
type lostRequest struct {
	answer
	lane *lane // nil: every one in which at least so many bytes are idle
	idle mem.Bytes
	gave bool // an arena was given to the pool
}
