package pool

import (
	"errors"
	"time"

	"stalloc/engine"
	"stalloc/engine/order"
	"stalloc/internal/mem"
)

// Stats is what the pool knows about physical memory.
type Stats struct {
	Reserved, PeakReserved mem.Bytes
	Load                   mem.Bytes // in live blocks
	Pending                mem.Bytes // freed, waiting for other streams
	LargestFree            mem.Bytes // free range as it is mapped; 0 where the policy does not know
	DriverCalls            uint64
	DriverTime             time.Duration // spent in the driver, as measured here
	// requests that were served only after the driver refused memory or streams were waited for
	Retries uint64
	// fences that the driver refused, and that memory still waits for
	Late  int
	Waits order.Waits
	// given back to the driver for a while, kept of it on the host, and of it, what regions lend
	Asleep, Backup, Lent mem.Bytes
	Engine               engine.Stats
}

// Stats returns the current counts.
func (p *Pool) Stats() Stats {
	s := p.policy.Stats()
	return Stats{
		Reserved: p.held(), PeakReserved: p.peak,
		Asleep: p.dev.Asleep(), Backup: p.backup(), Lent: p.lent(),
		Load: s.Load - p.freedSince, Pending: s.Pending,
		DriverCalls: p.calls, DriverTime: p.time, Retries: p.Retries.Load(), Engine: s,
		Late: p.order.Missing(), Waits: p.order.Waits(),
	}
}

// ResetPeak has PeakReserved start over from what is reserved now.
func (p *Pool) ResetPeak() { p.peak = p.held() }

// LargestFree returns the largest free range as it is mapped.
func (p *Pool) LargestFree() mem.Bytes { return p.policy.LargestFree() }

// Usage says what live blocks are.
func (p *Pool) Usage() engine.Usage { return p.policy.Usage() }

// Check recounts the engine's state.
func (p *Pool) Check() error { return errors.Join(p.policy.Check(), p.order.Check()) }

// Forget drops the streams that hold nothing, but for those to keep, and returns them.
func (p *Pool) Forget(keep func(mem.StreamID) bool) []mem.StreamID { return p.policy.Forget(keep) }
