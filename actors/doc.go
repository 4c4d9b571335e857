// Package actors turns the pure parts (plan, stream, engine) into a concurrent
// allocator: one owner for every piece of state, messages between the owners.
//
// # Who owns what
//
//	caller's thread                                             own goroutine
//	───────────────                                             ─────────────
//	Device.Serve ──► stream actor   what its stream is served from  planner
//	             ──► pool actor     the range, handles, driver        ▲  │
//	                     ▲                                            │  │
//	Device.Step  ──► supervisor ──── stepEnded ───────────────────────┘  │
//	                     ▲                                               │
//	                     └────────── schedulesReady ─────────────────────┘
//
// Stream actors (one for each stream that ever had a schedule), the pool actor and the supervisor
// (one of each per device) run on the thread that sends to them: their mailbox (mailbox.go) is a
// lock whose holder works off what others queue meanwhile. Nothing that serves a request waits for
// a goroutine to be scheduled. The planner has a goroutine of its own, because planning takes as
// long as a step does.
//
// Between two messages to the pool actor, the host may serve what the schedules plan and what gaps
// can hold, from the index that the engine uses, too, without a message: as far as the pool has
// allowed when it left the device's lock (host.go).
//
// # One request followed all the way
//
// C could not serve it. Device.Serve makes its stream known and asks the stream's actor, if it has
// a schedule, where the request is planned, and the pool actor for the block. That has the lock
// while it feeds the engine an event and performs the operations that come back, driver calls
// included, until one grants the block. What was served is logged. Messages never form a cycle
// (protocol.go): the supervisor asks streams and the pool, and those ask nobody.
//
// # Life of a plan
//
//	logged ──► compared with earlier steps ──► placed ──► served ──► withdrawn or replaced
//	 host             planner                 planner    stream
//
// Where a step asked for what an earlier one did, request for request, the planner places the
// requests of the next around what stays (kinds.go, planner.go). The schedule begins to serve at
// the next boundary: the host exchanges a pointer. It owns no memory, so nothing is prepared for it
// and nothing is lost with it. It serves while the requests are the expected ones: after the first
// that is not, the step is the range's alone. What does not serve is withdrawn.
//
// The steps that came again can be saved for a later run (saver.go). A step that is known and will
// not fit is said before it (warning.go). Where nobody marks the steps, boundaries are crude
// (crude.go).
//
// # When something fails
//
// Every Receive recovers, answers its caller with an error and marks what it
// owns. A stream whose schedule cannot be served goes on without. A failing pool actor cannot
// know what it owns any more: the device is broken, live blocks stay valid, new requests get
// ErrBroken and the C side serves them from plain driver allocations.
//
// A fence that the driver does not take, on a stream that is being captured for
// example, is late: what waits for it stays taken, and it is tried again when the program names
// the stream, or the device is waited for (fences.go).
package actors
