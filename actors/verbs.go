package actors

import (
	"fmt"
	"math"

	"stalloc/engine"
	"stalloc/engine/onerange"
)

// rare does what a poolRequest asks for.
func (p *pool) rare(m *poolRequest) error {
	var err error
	switch m.verb {
	case verbBoundary:
		p.poll(math.MaxInt)
		_, err = p.run(p.boundary())
		m.stats = p.stats()
		m.step = p.ahead.boundary(p)
	case verbExpect:
		e, ok := p.eng.(*onerange.Engine)
		if _, err = p.run(engine.Event{Kind: engine.EvExpect, Stream: m.stream, Small: m.small, Size: m.size, Handle: m.handle}); ok {
			if x := e.Extents(m.stream, m.small); len(x) > 0 {
				m.addr = x[0].Addr
			}
		}
	case verbTrim:
		p.poll(math.MaxInt) // what other streams are done with is cached, too
		_, err = p.run(engine.Event{Kind: engine.EvTrim, Pool: m.pool})
	case verbLimit:
		p.limit = m.limit
		p.eng.SetLimit(m.limit)
	case verbFind:
		b, ok := p.eng.Lookup(m.addr)
		if !ok {
			b, ok = p.eng.Within(m.addr)
		}
		if !ok || b.Pending {
			return ErrUnknown
		}
		m.addr, m.size, m.stream = b.Addr, b.Size, b.Stream
	case verbStats:
		p.poll(math.MaxInt)
		m.stats = p.stats()
		if e, ok := p.eng.(*onerange.Engine); ok {
			m.stats.LargestFree = e.LargestFree()
		}
	case verbUsage:
		if e, ok := p.eng.(*onerange.Engine); ok {
			m.usage, m.limit = e.Usage(), p.limit
		}
	case verbResetPeak:
		p.peak = p.eng.Reserved()
	case verbCheck:
		err = p.eng.Check()
	case verbShare:
		err = p.share(m.peer)
	}
	return err
}

func (p *pool) stats() PoolStats {
	s := p.eng.Stats()
	return PoolStats{
		Reserved: p.eng.Reserved(), PeakReserved: p.peak, Load: s.Load - p.gone, Pending: s.Pending,
		DriverCalls: p.calls, DriverTime: p.time, Retries: p.retries, Engine: s,
		Unfenced: p.fences.failed, Late: len(p.fences.late),
	}
}

// close gives everything back, live blocks included, and that also if the pool
// does not know any more what it has.
func (p *pool) close() error {
	p.broken = fmt.Errorf("%w: the device was closed", ErrBroken)
	return p.dev.Close()
}
