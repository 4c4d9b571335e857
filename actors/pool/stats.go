package pool

import (
	"errors"
	"time"

	"stalloc/engine"
	"stalloc/engine/order"
	"stalloc/internal/mem"
	"stalloc/live/perfetto"
)

// Stats is what the pool knows about physical memory.
type Stats struct {
	Reserved, PeakReserved mem.Bytes
	Limit                  mem.Bytes // that the program has set; 0: none
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
	largest := mem.Bytes(0)
	if p.state < broken {
		largest = p.policy.LargestFree()
	}
	s := p.policy.Stats()
	return Stats{
		Reserved: p.held(), PeakReserved: p.peak, Limit: p.limit, LargestFree: largest,
		Asleep: p.dev.Asleep(), Backup: p.backup(), Lent: p.lent(),
		Load: s.Load - p.freedSince, Pending: s.Pending,
		DriverCalls: p.calls, DriverTime: p.time, Retries: p.Retries.Load(), Engine: s,
		Late: p.order.Missing(), Waits: p.order.Waits(),
	}
}

// backup returns what is kept on the host: of what sleeps, of regions that were closed as long as
// they have device memory, for the next pause, and what could not be given back there.
func (p *Pool) backup() mem.Bytes {
	n := p.backups.Stuck() + p.backups.Spare()
	for _, x := range p.asleep {
		n += x.Kept()
	}
	for _, m := range p.moved {
		n += m.Backup()
	}
	return n
}

// lent returns what is away of closed regions that no pause has put to sleep.
func (p *Pool) lent() (n mem.Bytes) {
	for m := range p.lending(nil) {
		n += m.Away
	}
	return n
}

// ResetPeak resets PeakReserved to what is reserved now.
func (p *Pool) ResetPeak() { p.peak = p.held() }

// Usage says what live blocks are.
func (p *Pool) Usage() engine.Usage { return p.policy.Usage() }

// Check recounts the engine's state.
func (p *Pool) Check() error { return errors.Join(p.policy.Check(), p.order.Check()) }

// traced puts a stretch of time into the trace, if there is one: what for, a count of it, and what
// is held after it.
func (p *Pool) traced(start time.Time, name, unit string, n int64) {
	if p.Trace == nil {
		return
	}
	now := time.Now()
	p.Trace.Span(start, now, p.Ordinal, name, perfetto.Args{unit: n})
	p.Trace.Memory(now, p.Ordinal, p.policy.Stats().Load, p.reserved())
}

func purpose(ops []engine.Op) string {
	var has [engine.OpUnknown + 1]bool
	for _, op := range ops {
		has[op.Kind] = true
	}
	switch {
	case has[engine.OpCreate]:
		return "driver: take memory"
	case has[engine.OpRelease]:
		return "driver: give memory back"
	case has[engine.OpMap]:
		return "driver: stitch"
	case has[engine.OpUnmap]:
		return "driver: unmap"
	case has[engine.OpSync]:
		return "driver: wait for the device"
	}
	return "driver: fence"
}
