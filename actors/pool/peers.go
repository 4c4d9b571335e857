package pool

import (
	"errors"
	"slices"

	"stalloc/internal/mem"
)

// Access rights belong to a mapping, and each device that uses it needs its own. One
// process per GPU is the rule, and rights for devices that never look cost the driver
// as much as those for the owner; so a device has peers only once the process opens
// another one. Then what is mapped already gets its rights a second time.

// sharing is what others use of the pool's memory.
type sharing struct {
	peers    []int                  // other devices of the process, which have all of it
	exported map[mem.Addr]mem.Bytes // blocks that other processes can have
}

// Share gives another device access to all that is mapped and will be.
func (p *Pool) Share(peer int) error {
	if slices.Contains(p.peers, peer) {
		return nil
	}
	peers := append(slices.Clone(p.peers), peer)
	if err := p.dev.EnablePeers(peers...); err != nil {
		return err
	}
	for at, size := range p.dev.Mapped() {
		p.calls++
		if err := p.dev.Access(at, size); err != nil {
			// Later mappings must not fail for the peer's sake.
			return errors.Join(err, p.dev.EnablePeers(p.peers...))
		}
	}
	p.peers = peers
	return nil
}
