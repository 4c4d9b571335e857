// Package order decides when memory may be used again, and whether a request waits for that.
//
// A block that other streams have used is not free when the program frees it, but when their work
// has passed. Order puts fences (events of the driver) behind that work, asks the driver about
// them, and tells the policy. It lies between a runner, which performs driver calls and decides
// nothing, and a policy (engine/onerange, engine/gmlake), which decides where blocks lie:
//
//	runner ──► Engine.Step(event) ──► policy.Step ──► operations
//	   ▲            fences, waits, attempts               │
//	   └──────────────── operations ◄────────────────────┘
//
// # A request
//
// Memory that is made for a request stays with the program. So other means come first, each of
// which ends in a refusal of the policy (RefusedPending) and another attempt:
//
//	stage    what the policy is asked                      then
//	first    the planned place, or a gap; rather poll      granted; polling; full
//	second   the same after all fences were polled;        granted; OpWait: the request comes again;
//	         rather wait, if the rule of waiting allows     full
//	regions  to give back what regions have idle           first, if that was something
//	borrow   what persistent streams hold idle, where       granted; OpWait; rollback
//	         nobody may wait for the device
//	rollback to give back what the attempts have made      refused
//
// The rule of waiting (rule.go) is decision 27 in the docs.
//
// # Fences
//
// The driver must not be told of a stream that is gone: it may crash, or take the handle for that
// of a new stream at the same address. So an event is recorded only on a stream that the program
// has just named: by a request on it, by a use, or by the free of a block that it used, until which
// the stream has to exist (as for PyTorch's own allocator). A deferred free names none. What waits
// for a stream without an event on it is late: it stays taken until the stream is named again,
// whose event is behind more work and so proves no less, or until the device was waited for.
//
// The work of a stream passes its events in order, so the driver is asked about the oldest of each
// stream: hundreds may be outstanding where a pipeline sends its activations.
package order
