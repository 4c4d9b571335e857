// Package actors turns the pure parts (stream, plan, engine) into a concurrent
// allocator: one owner for every piece of state, messages between the owners.
//
// # Who owns what
//
//	caller's thread                                             own goroutine
//	───────────────                                             ─────────────
//	Device.Alloc ──► stream actor   the tape's slow side            planner
//	             └─► pool actor     engine, handles, driver           ▲  │
//	Device.Step  ──► supervisor ──► stream actors ── Observed ────────┘  │
//	                     ▲  └─────► pool actor                           │
//	                     └──────────────── PlanReady ────────────────────┘
//
// Stream actors (one per CUDA stream), the pool actor and the supervisor (one
// of each per device) run on the thread that sends to them: protoactor's
// synchronized dispatcher makes a mailbox a lock whose holder works off what
// others queue meanwhile. Nothing that serves a request waits for a goroutine
// to be scheduled. The planner has a goroutine of its own, because planning
// takes as long as a step does.
//
// # One request followed all the way
//
// C could not serve it from the tape. Device.Alloc asks the stream actor, which
// takes the stream's lock, looks ahead on the tape and serves a slot if the
// step can be found there again. If not, Device.Alloc asks the pool actor: it
// feeds the engine an event and performs the operations that come back, driver
// calls included, until one grants the block. Messages never form a cycle: the
// supervisor asks streams and the pool, those ask nobody.
//
// # Life of a plan
//
//	observed ──► solving ──► ready ──► serving ──► retiring ──► gone
//	  planner     planner   supervisor  stream     supervisor
//
// A step boundary is the only place where a plan changes state on the serving
// side. The supervisor first retires what is empty, then asks the pool for the
// arenas of the ready plan, then hands each stream its tape. A plan whose arena
// still holds a block retires when that block is freed. Nothing is copied.
//
// # When something fails
//
// Every Receive recovers, answers its caller with an error and marks what it
// owns. A failing stream actor is restarted by protoactor and finds its blocks
// in the port, which outlives it. A failing pool actor cannot know what it
// owns any more: the device is broken, live blocks stay valid, new requests get
// ErrBroken and the C side serves them from plain driver allocations.
package actors
