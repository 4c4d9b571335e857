// Package actors turns the pure parts (plan, stream, engine) into a concurrent
// allocator: one owner for every piece of state, messages between the owners.
//
// # Who owns what
//
//	caller's thread                                              own goroutine
//	───────────────                                              ─────────────
//	Device.Serve ──► stream actor   a stream's schedules         planner
//	             ──► pool actor     the range, handles, driver     ▲  │
//	                     ▲                                         │  │
//	Device.Step  ──► supervisor ──── step.Observed ────────────────┘  │
//	                     ▲                                            │
//	                     └────────── planner.Ready ───────────────────┘
//
// Stream actors (package stream, one for each stream that ever had a schedule), the pool actor
// (package pool) and the supervisor (one of each per device) run on the thread that sends to them
// (package inline). Nothing that serves a request waits for a goroutine to be scheduled. The
// planner (package planner) has a goroutine of its own, because planning takes as long as a step
// does. So has the mover (package mover), which brings regions back; it asks the pool.
//
// Between two messages to the pool actor, the host may serve what the schedules plan and what gaps
// can hold, from the index that the engine uses, too, without a message: as far as the budget goes
// that the pool has set when it left the device's lock (package host).
//
// A request is followed all the way, and an observed step, in DESIGN.md.
//
// # Who sends what to whom
//
//	message           from                        to          answer               may be lost
//	stream.Request    threads                     stream      where it is planned  no
//	stream change     supervisor                  stream      done                 no
//	Call              threads                     supervisor  done                 no
//	pool.Call         threads, supervisor, mover  pool        done                 no
//	pool.Request      threads                     pool        address              no
//	pool.Free         threads                     pool        what was freed       no
//	planner.Loaded    Open                        planner     none                 yes: all is learned anew
//	planner.LastLook  Retire, Close               planner     done                 no
//	step.Observed     supervisor                  planner     none                 yes: it is not planned
//	planner.Ready     planner                     supervisor  none                 yes: the next replaces it
//
// Everything that is answered carries its answer, an error besides; the sender waits for it only if
// another thread is working off the mailbox at that moment. Whoever waits for an answer stands
// above whom he asks, so there is no cycle: threads ask the supervisor, streams and the pool, the
// supervisor asks streams and the pool, the mover asks the pool, and those ask nobody.
//
// # When something fails
//
// Every Receive recovers, answers its caller with an error and marks what it owns. A stream whose
// schedule cannot be served goes on without. A failing pool actor cannot know what it owns any
// more: the device is broken, live blocks stay valid, new requests get ErrBroken and the C side
// serves them from plain driver allocations.
package actors
