package actors

import "stalloc/internal/mem"

// Freed counts a block of a tape out and observes it, as Local does.
func (p *GoPort) Freed(addr mem.Addr, asked mem.Bytes) {
	p.host.count(-mem.Round(asked))
	p.push(Event{Addr: addr, Kind: EventFree})
}
