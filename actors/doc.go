// Package actors turns the pure parts (stream, plan, engine) into a concurrent
// allocator: one owner for every piece of state, messages between the owners.
//
// # Who owns what
//
//	caller's thread                                             own goroutine
//	───────────────                                             ─────────────
//	Device.Serve ──► stream actor   the tape's slow side            planner
//	             └─► pool actor     engine, handles, driver           ▲  │
//	Device.Step  ──► supervisor ──► stream actors                     │  │
//	                  ▲  │  └─────► pool actor                        │  │
//	                  │  └──────────────── stepEnded ─────────────────┘  │
//	                  └─────────────────── planReady ────────────────────┘
//
// Stream actors (one per CUDA stream), the pool actor and the supervisor (one
// of each per device) run on the thread that sends to them: their mailbox
// (mailbox.go) is a lock whose holder works off what others queue meanwhile. Nothing
// that serves a request waits for a goroutine to be scheduled. The planner has a
// goroutine of its own, because planning takes as long as a step does.
//
// Between two messages to the pool actor, C may have the engine's state: it then serves
// what cached memory can serve without a message (loan.go).
//
// # One request followed all the way
//
// C could not serve it from the tape. Device.Serve asks the stream actor, which
// takes the stream's lock, looks for the step's place on the tape and serves a slot,
// or a hole of the arena, if it finds one. If not, Device.Alloc asks the pool actor:
// it feeds the engine an event and performs the operations that come back, driver
// calls included, until one grants the block. Messages never form a cycle
// (protocol.go): the supervisor asks streams and the pool, those ask nobody.
//
// # Life of a plan
//
//	observed ──► solving ──► on trial ──► ready ──► serving ──► replaced, lost
//	  planner     solver      planner    supervisor  stream     or withdrawn
//
// A plan is on trial until a step that it was not made from has been replayed
// against it, in memory (judge.go): only if that step would have been served well,
// for about the memory that the pool alone needs, it is offered. So workloads that
// never repeat are left to the pool. Kinds of step that come again are planned
// together and share one arena (planner_kinds.go).
//
// The plan of an earlier run (cache.go, planner_save.go) has set-up and the first
// step as well. Its arena gets memory as far as the run has come (grow.go), so a run
// that turns out to be another holds no more for it.
//
// A step boundary is the only place where a plan begins to serve, but for the plan
// of an earlier run, which begins as soon as it is recognised (cache_opening.go).
// The supervisor asks the pool for what the arena lacks and lays each stream's tape
// over it, around the blocks that live there, from a layout that was made beside the
// program (layouts.go). A step that leaves its plan gives the
// arena to the pool until the next boundary (dissolve.go); a plan that is left, or
// costs memory, two steps in a row is withdrawn. Nothing is copied.
//
// # When something fails
//
// Every Receive recovers, answers its caller with an error and marks what it
// owns. A failing stream actor is restarted by protoactor and finds its tape
// in the lane, which outlives it. A failing pool actor cannot know what it
// owns any more: the device is broken, live blocks stay valid, new requests get
// ErrBroken and the C side serves them from plain driver allocations.
//
// A fence that the driver does not take, on a stream that is being captured for
// example, is late: what waits for it stays taken, and it is tried again (fences.go).
package actors
