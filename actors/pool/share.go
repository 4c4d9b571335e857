package pool

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"stalloc/actors/device/sleeper"
	"stalloc/engine"
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

// Export: see actors.Device.Export.
func (p *Pool) Export(addr mem.Addr) (offset mem.Bytes, handles []sleeper.Exported, err error) {
	b, err := p.Find(addr)
	if err != nil {
		return 0, nil, err
	}
	_, before := p.exported[b.Addr]
	if p.sleeps(b.Pool) && !before {
		return 0, nil, ErrAsleep
	}
	at, handles, err := p.dev.Export(b.Addr, b.Size)
	if err != nil {
		return 0, nil, err
	}
	if before {
		p.dev.Unexport(b.Addr, b.Size)
	}
	p.exported[b.Addr] = b.Size
	p.policy.Keep(b.Addr)
	return mem.Bytes(addr - at), handles, nil
}

// Import: see actors.Device.Import.
func (p *Pool) Import(handles []sleeper.Exported) (at mem.Addr, err error) {
	return p.dev.Import(handles)
}

// EndImport unmaps what Import has mapped at an address.
func (p *Pool) EndImport(at mem.Addr) error {
	known, err := p.dev.EndImport(at)
	if !known {
		return ErrUnknown
	}
	return err
}

// unexport revokes the sharing of a freed block, and reports whether it had been shared.
func (p *Pool) unexport(addr mem.Addr) bool {
	size, is := p.exported[addr]
	if is {
		p.dev.Unexport(addr, size)
		delete(p.exported, addr)
	}
	return is
}

// Awake says what Pause leaves awake, for people.
func (p *Pool) Awake() string {
	var of []string
	private := p.handlesOf(func(pool uint64) bool { return pool != 0 && pool < engine.FirstRegion })
	if n, _ := p.dev.Size(private); n > 0 {
		of = append(of, fmt.Sprintf("%v in private pools", n))
	}
	handles, imported := p.dev.Shared()
	var blocks mem.Bytes
	for _, size := range p.exported {
		blocks += size
	}
	if n := len(p.exported); n > 0 {
		of = append(of, fmt.Sprintf("%v of handles in which %v are blocks that other "+
			"processes can have (%d)", handles, blocks, n))
	}
	if imported > 0 {
		of = append(of, fmt.Sprintf("%v of other processes, mapped here and held there", imported))
	}
	return strings.Join(of, ", ")
}
