package sleeper

import (
	"fmt"

	"stalloc/actors/device"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Exported is a handle that other processes can map.
type Exported struct {
	Number driver.Handle // of no other handle, ever
	driver.Shared
	Size mem.Bytes
}

// Export returns the handles behind a range that is awake, and where the first of them is mapped.
// They stay awake until Unexport.
func (d *Device) Export(addr mem.Addr, size mem.Bytes) (at mem.Addr, all []Exported, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	from, can := d.Device.(device.Exporter)
	if !can {
		return 0, nil, fmt.Errorf("no other process can be given memory of %s", d.Name())
	}
	places := d.behind(addr, size)
	for _, p := range places {
		if !p.of.there {
			return 0, nil, fmt.Errorf("memory at %#x sleeps: wake it first", uint64(p.at))
		}
		name, err := from.Export(p.of.real)
		if err != nil {
			return 0, nil, err
		}
		all = append(all, Exported{Number: p.of.number, Shared: name, Size: p.of.size})
	}
	for _, p := range places {
		p.of.shares++
		p.of.exported = true
	}
	return places[0].at, all, nil
}

// Unexport takes back one Export of a range that is mapped as it was then. Who has it already
// keeps it.
func (d *Device) Unexport(addr mem.Addr, size mem.Bytes) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.behind(addr, size) {
		p.of.shares--
	}
}

// Shared returns the memory of handles that Export keeps awake, and what is imported.
func (d *Device) Shared() (exported, imported mem.Bytes) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.handles {
		if h.shares > 0 {
			exported += h.size
		}
	}
	for _, size := range d.imports {
		imported += size
	}
	return exported, imported
}

// behind returns the places that a range lies in.
func (d *Device) behind(addr mem.Addr, size mem.Bytes) []*place {
	at := addr &^ (mem.Addr(mem.HandleSize) - 1)
	for d.places[at] == nil {
		at -= mem.Addr(mem.HandleSize)
	}
	places, _ := d.within(at, size+mem.Bytes(addr-at))
	return places
}
