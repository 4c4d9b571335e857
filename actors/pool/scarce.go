package pool

import (
	"math"
	"time"

	"stalloc/engine"
)

// While a stream may be captured nobody may wait for the device. A request that finds no memory then
// may still borrow what other persistent streams hold idle: fences prove that their work is done,
// and do not end a capture. The request comes again until it is.

// lastWait is how long such a request waits at most, while a wait for the device would have no end.
const lastWait = 10 * time.Second

// borrowLast borrows from other streams for a request that would be refused for err.
func (p *Pool) borrowLast(m *Request, err error) (engine.Op, error) {
	if !p.policy.Indexed() || p.waitsOff || m.wait.last {
		return engine.Op{}, err
	}
	grant, refused := p.run(engine.Event{
		Kind: engine.EvAlloc, Req: 1, Size: m.Size, Stream: m.Stream, Pool: m.Private,
		Lend: true,
	})
	p.borrows(m)
	if !isRefused(refused, engine.RefusedPending) {
		return grant, refused
	}
	m.wait.last, m.Again = true, true
	return engine.Op{}, nil
}

// waitsOn reports whether a request goes on waiting for what it has borrowed.
func (p *Pool) waitsOn(m *Request) bool {
	p.poll(math.MaxInt)
	at, behind := p.fences.oldest(m.wait.lenders...)
	m.Again = behind && at <= m.wait.from && p.Clock.Now()-m.wait.from < lastWait
	return m.Again
}
