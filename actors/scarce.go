package actors

import (
	"math"
	"time"

	"stalloc/engine"
)

// A request that finds no memory, while nobody may wait for the device since a stream may be
// captured, may have what other streams hold idle all the same: their fences prove that it is, and
// harm no capture. So those that last lend it. The request comes again until their work is done.

// lastWait is how long such a request waits at most, while a wait for the device would have no end.
const lastWait = 10 * time.Second

// begs has other streams lend what a request lacks that would be refused for err.
func (p *pool) begs(m *allocRequest, err error) (engine.Op, error) {
	if p.ranged == nil || p.hasty || m.last {
		return engine.Op{}, err
	}
	grant, refused := p.run(engine.Event{
		Kind: engine.EvAlloc, Req: 1, Size: m.size, Stream: m.stream, Pool: m.pool,
		Lend: true,
	})
	p.borrows(m)
	if !isRefused(refused, engine.RefusedPending) {
		return grant, refused
	}
	m.last, m.again = true, true
	return engine.Op{}, nil
}

// awaits reports whether a request goes on waiting for what it has begged for.
func (p *pool) awaits(m *allocRequest) bool {
	p.poll(math.MaxInt)
	at, behind := p.fences.oldest(m.lenders...)
	m.again = behind && at <= m.from && p.clock.Now()-m.from < lastWait
	return m.again
}
