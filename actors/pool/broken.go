package pool

import (
	"fmt"

	"go.uber.org/zap"

	"stalloc/actors/inline"
	"stalloc/internal/mem"
)

// A bug of ours must not end the training. When the policy panics, what it knows of free memory may
// be wrong: nothing more is taken from it or given back to the driver, and requests are served
// elsewhere. What it knows of live blocks is only read from then on: they stay where they are,
// their frees are accepted and counted, and their memory is not used again.

// lost is what is known of a pool that is broken.
type lost struct {
	cause      error
	freedAddrs map[mem.Addr]struct{} // blocks that were freed since
	freedSince mem.Bytes             // in them
}

// breaks notes that a message made the policy panic.
func (p *Pool) breaks(r any) error {
	if p.state < broken {
		p.Log.Error("a bug in the pool was caught: it hands out no more memory",
			zap.Any("panic", r), zap.Stack("stack"))
		p.freedAddrs = make(map[mem.Addr]struct{})
	}
	p.state, p.cause = broken, fmt.Errorf("%w: %v", ErrBroken, r)
	return p.cause
}

// outlive answers what can be answered without the policy.
func (p *Pool) outlive(q inline.Question) error {
	switch m := q.(type) {
	case *Free:
		b, ok := p.policy.Lookup(m.Addr)
		if _, gone := p.freedAddrs[m.Addr]; gone || !ok || b.Addr != m.Addr || b.Pending {
			return ErrUnknown
		}
		p.freedAddrs[m.Addr] = struct{}{}
		p.freedSince += b.Size
		m.Freed = b
		return nil
	case *Call:
		if m.Broken != nil {
			return m.Broken(p)
		}
	}
	return p.cause
}
