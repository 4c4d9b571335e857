// Package actors turns the pure parts (plan, stream, engine) into a concurrent
// allocator: one owner for every piece of state, messages between the owners.
//
// # Who owns what
//
//	caller's thread                                             own goroutine
//	───────────────                                             ─────────────
//	Device.Serve ──► stream actor   where a request is wished       planner
//	             └─► pool actor     the range, handles, driver        ▲  │
//	Device.Step  ──► supervisor ──► stream actors                     │  │
//	                  ▲  │  └─────► pool actor                        │  │
//	                  │  └──────────────── stepEnded ─────────────────┘  │
//	                  └───────────────── wishesReady ────────────────────┘
//
// Stream actors (one per CUDA stream), the pool actor and the supervisor (one
// of each per device) run on the thread that sends to them: their mailbox
// (mailbox.go) is a lock whose holder works off what others queue meanwhile. Nothing
// that serves a request waits for a goroutine to be scheduled. The planner has a
// goroutine of its own, because planning takes as long as a step does, and so has the
// layout of forecasts, which cannot wait for the planner.
//
// Between two messages to the pool actor, the host has the state under the device's lock
// (host.go): C then serves what the tapes wish and what gaps can hold without a message
// (loan.go).
//
// # One request followed all the way
//
// C could not serve it. Device.Serve asks the stream actor, which looks the request up on
// the stream's tape and says where it is wished. Then it asks the pool actor, which has the
// lock now: it feeds the engine an event and performs the operations that come back, driver
// calls included, until one grants the block. What was served is logged. Messages never
// form a cycle (protocol.go): the supervisor asks streams and the pool, those ask nobody.
//
// # Life of a plan
//
//	logged ──► compared with the step before ──► placed ──► wished ──► replaced or withdrawn
//	 host            planner                     planner    stream
//
// Where a step asked for what the one before did, the planner places the requests of the
// next around what stays (planner.go). The wishes begin to serve at the next boundary: the
// host exchanges a pointer. They own no memory, so nothing is prepared for them and nothing
// is lost with them. Where no two steps ask for the same, the sizes of the first large
// requests tell those of the others: they are placed while the step runs (forecast.go,
// layout.go).
// Boundaries may lie behind the marks (late.go) or be found where nobody marks (auto.go).
//
// Set-up, the first steps and one that is served well are placed once more together, for a
// later run (history.go, saver.go, cache.go). That begins with them as soon as it is
// recognised (opening.go, start.go).
//
// # When something fails
//
// Every Receive recovers, answers its caller with an error and marks what it
// owns. A failing stream actor goes on without wishes. A failing pool actor cannot know what it
// owns any more: the device is broken, live blocks stay valid, new requests get
// ErrBroken and the C side serves them from plain driver allocations.
//
// A fence that the driver does not take, on a stream that is being captured for
// example, is late: what waits for it stays taken, and it is tried again (fences.go).
package actors
