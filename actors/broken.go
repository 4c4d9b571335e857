package actors

import (
	"fmt"

	"go.uber.org/zap"

	"stalloc/internal/mem"
)

// A bug of ours must not end the training. When the pool's policy panics, what it knows
// of free memory may be wrong: nothing more is taken from it or given back to the
// driver, and whoever asks for memory has to look elsewhere. What it knows of a block is
// only read from then on, so the blocks that live stay where they are, their frees are
// taken and counted, and their memory is nobody's.

// breaks notes that a message made the policy panic.
func (p *pool) breaks(r any) error {
	if p.broken == nil {
		p.log.Error("a bug in the pool was caught: it hands out no more memory",
			zap.Any("panic", r), zap.Stack("stack"))
		p.ended = make(map[mem.Addr]struct{})
	}
	p.broken = fmt.Errorf("%w: %v", ErrBroken, r)
	return p.broken
}

// outlive answers what can be answered without the policy.
func (p *pool) outlive(q question) error {
	switch m := q.(type) {
	case *freeRequest:
		b, ok := p.eng.Lookup(m.addr)
		if _, gone := p.ended[m.addr]; gone || !ok || b.Addr != m.addr || b.Pending {
			return ErrUnknown
		}
		p.ended[m.addr] = struct{}{}
		p.gone += b.Size
		m.freed = b
		return nil
	case *order[*pool]:
		if m.broken != nil {
			return m.broken(p)
		}
	}
	return p.broken
}
