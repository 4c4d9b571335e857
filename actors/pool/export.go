package pool

import (
	"fmt"
	"strings"

	"stalloc/actors/device/sleeper"
	"stalloc/engine"
	"stalloc/internal/mem"
)

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
	exported, imported := p.dev.Shared()
	if n := len(p.exported); n > 0 {
		of = append(of, fmt.Sprintf("%v of handles in which %v are blocks that other "+
			"processes can have (%d)", exported, p.shared(), n))
	}
	if imported > 0 {
		of = append(of, fmt.Sprintf("%v of other processes, mapped here and held there", imported))
	}
	return strings.Join(of, ", ")
}

// shared returns what is in blocks that other processes can have.
func (p *Pool) shared() (sum mem.Bytes) {
	for _, size := range p.exported {
		sum += size
	}
	return sum
}
