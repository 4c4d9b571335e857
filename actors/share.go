package actors

import (
	"errors"
	"math/bits"
	"slices"

	"stalloc/actors/device"
	"stalloc/engine"
	"stalloc/internal/mem"
)

// Access rights belong to a mapping, and each device that uses it needs its own. One
// process per GPU is the rule, and rights for devices that never look cost the driver
// as much as those for the owner; so a device has peers only once the process opens
// another one. Then what is mapped already gets its rights a second time.

// pageSet is a set of pages of the window, by number.
type pageSet []uint64

// set adds the pages [from, to) or takes them out.
func (s *pageSet) set(from, to int, in bool) {
	for len(*s)*64 < to {
		*s = append(*s, 0)
	}
	for p := from; p < to; p++ {
		if in {
			(*s)[p>>6] |= 1 << (p & 63)
		} else {
			(*s)[p>>6] &^= 1 << (p & 63)
		}
	}
}

// next returns the first stretch of pages of the set at or behind a page; from == to
// if there is none.
func (s pageSet) next(at int) (from, to int) {
	from = s.find(at, 0)
	return from, s.find(from, ^uint64(0))
}

// find returns the first page, at or behind one, that is in the set, or with flip all
// ones the first that is not; the set's length if there is none.
func (s pageSet) find(at int, flip uint64) int {
	for w := at >> 6; w < len(s); w++ {
		word := s[w] ^ flip
		if w == at>>6 {
			word &= ^uint64(0) << (at & 63)
		}
		if word != 0 {
			return w<<6 + bits.TrailingZeros64(word)
		}
	}
	return 64 * len(s)
}

// opened notes that the pages of an operation are usable now, or no longer.
func (p *pool) opened(op *engine.Op, usable bool) {
	from := int((op.Addr - p.base) / mem.Addr(mem.HandleSize))
	p.usable.set(from, from+int(op.Size/mem.HandleSize), usable)
}

// share gives another device access to all that is mapped and will be.
func (p *pool) share(peer int) error {
	s, ok := p.dev.(device.Sharer)
	if !ok {
		return device.ErrAlone
	}
	if slices.Contains(p.peers, peer) {
		return nil
	}
	peers := append(slices.Clone(p.peers), peer)
	if err := s.EnablePeers(peers...); err != nil {
		return err
	}
	for from, to := p.usable.next(0); from < to; from, to = p.usable.next(to) {
		p.calls++
		at := p.base + mem.Addr(from)*mem.Addr(mem.HandleSize)
		if err := p.dev.Access(at, mem.Bytes(to-from)*mem.HandleSize); err != nil {
			// Later mappings must not fail for the peer's sake.
			return errors.Join(err, s.EnablePeers(p.peers...))
		}
	}
	p.peers = peers
	return nil
}
