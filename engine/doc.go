// Package engine is the allocator's memory as a pure state machine: an event goes
// in, the operations now due come out. It holds no clock, goroutine or lock and
// calls no driver.
package engine
