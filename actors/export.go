package actors

import (
	"errors"
	"fmt"
	"strings"

	"stalloc/actors/device/sleeper"
	"stalloc/engine"
	"stalloc/internal/mem"
)

var errCannotExport = errors.New("pool:gmlake has no memory for other processes; leave that setting out")

// Export lets other processes map the handles of the live block that contains addr, and tells where
// addr lies in them. Until the block is freed they do not sleep, and until its handles have gone
// back to the driver their file descriptors stay open. Who maps them has to see to it that the
// block lives as long.
func (d *Device) Export(addr mem.Addr) (offset mem.Bytes, handles []sleeper.Exported, err error) {
	err = d.rare(func(p *pool) error {
		b, ok := p.eng.Lookup(addr)
		if !ok {
			b, ok = p.eng.Within(addr)
		}
		_, before := p.exported[b.Addr]
		switch {
		case !ok || b.Pending:
			return ErrUnknown
		case p.ranged == nil:
			return errCannotExport
		case p.sleeps(b.Pool) && !before:
			return ErrAsleep
		}
		var at mem.Addr
		if at, handles, err = p.dev.Export(b.Addr, b.Size); err != nil {
			return err
		}
		if before {
			p.dev.Unexport(b.Addr, b.Size)
		}
		p.exported[b.Addr] = b.Size
		p.ranged.Keep(b.Addr)
		offset = mem.Bytes(addr - at)
		return nil
	}, nil)
	return offset, handles, err
}

// Import maps what Export of another process returned, and returns where: a range of this device
// alone, which lives as long as it is mapped, whatever becomes of the exporter.
func (d *Device) Import(handles []sleeper.Exported) (at mem.Addr, err error) {
	err = d.rare(func(p *pool) (err error) {
		at, err = p.dev.Import(handles)
		return err
	}, nil)
	return at, err
}

// EndImport unmaps what Import has mapped at an address.
func (d *Device) EndImport(at mem.Addr) error {
	end := func(p *pool) error {
		known, err := p.dev.EndImport(at)
		if !known {
			return ErrUnknown
		}
		return err
	}
	return d.rare(end, end)
}

// unexport is told of a block's end, and reports whether other processes could have it.
func (p *pool) unexport(addr mem.Addr) bool {
	size, is := p.exported[addr]
	if is {
		p.dev.Unexport(addr, size)
		delete(p.exported, addr)
	}
	return is
}

// awake says what Pause leaves awake, for people.
func (p *pool) awake() string {
	var of []string
	if p.ranged != nil {
		private := p.handlesOf(func(pool uint64) bool {
			return pool != 0 &&
				pool < engine.FirstRegion
		})
		if n, _ := p.dev.Size(private); n > 0 {
			of = append(of, fmt.Sprintf("%v in private pools", n))
		}
	}
	exported, imported := p.dev.Shared()
	if n := len(p.exported); n > 0 {
		of = append(of, fmt.Sprintf("%v of handles in which %v are blocks that other processes can have (%d)", exported, p.shared(), n))
	}
	if imported > 0 {
		of = append(of, fmt.Sprintf("%v of other processes, mapped here and held there", imported))
	}
	return strings.Join(of, ", ")
}

// shared returns what is in blocks that other processes can have.
func (p *pool) shared() (sum mem.Bytes) {
	for _, size := range p.exported {
		sum += size
	}
	return sum
}
