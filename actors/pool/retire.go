package pool

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"stalloc/actors/inline"
	"stalloc/internal/mem"
)

// ErrRetired is the answer to a request of a device that was retired.
var ErrRetired = errors.New("the device was closed")

// Retire ends serving and gives back what is idle.
func (p *Pool) Retire() error {
	p.state = retired
	p.limit = 0 // or what sleeps could not be resumed: none can be set any more
	p.applyLimit()
	events, _ := p.take()
	p.Host.Return(events)
	p.Host.Observe(false)
	return errors.Join(p.backups.End(), p.giveIdleBack())
}

// giveIdleBack waits for other streams' work, as the driver's own free does, and returns what
// nobody uses.
func (p *Pool) giveIdleBack() error {
	p.idle = 0
	if p.order.Outstanding().All > 0 {
		if err := p.sync(); err != nil {
			p.Log.Debug("the device cannot be waited for", zap.Error(err))
		}
	}
	err := p.Trim(0)
	if away, leaving := p.out(nil); away+leaving == 0 && p.Host.Captures() == 0 {
		err = errors.Join(err, p.link.Close())
	}
	return err
}

// freedRetired gives memory back after frees of a retired device: each time as much as a
// handle holds is free, and after the last.
func (p *Pool) freedRetired(size mem.Bytes) {
	if p.idle += size; p.idle < mem.HandleSize && p.policy.Stats().Load > 0 {
		return
	}
	if err := p.giveIdleBack(); err != nil {
		p.Log.Debug("memory of a closed device cannot be given back yet", zap.Error(err))
	}
}

// Close gives everything back, live blocks included, and that also if the policy does not know
// any more what it has: the device knows what is mapped (package sleeper). No pending
// work may use that memory.
func (p *Pool) Close() error {
	p.state, p.cause = closed, fmt.Errorf("%w: the device was closed", ErrBroken)
	p.backups.Await()
	errs := []error{p.link.Close()}
	for _, m := range p.moved {
		errs = append(errs, m.Drop())
	}
	for at, size := range p.dev.Mapped() {
		errs = append(errs, p.dev.Unmap(at, size))
	}
	for _, h := range p.handles {
		if h != 0 {
			errs = append(errs, p.dev.Release(h))
		}
	}
	return errors.Join(append(errs, p.backups.Drop(p.asleep), p.backups.End(), p.dev.DropSpare(),
		p.dev.Unreserve(p.Base, p.Size), p.dev.Close())...)
}

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
		_ = p.backups.End() // no pause comes any more; Close tries again
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
