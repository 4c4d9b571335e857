package sleeper

import (
	"errors"
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
	from, can := d.Device.(device.Exporter)
	if !can {
		return 0, nil, fmt.Errorf("no other process can be given memory of %s", d.Name())
	}
	places := d.behind(addr, size)
	for _, p := range places {
		if p.of.memory == nil {
			return 0, nil, fmt.Errorf("memory at %#x sleeps: resume it first", uint64(p.at))
		}
		name, err := from.Export(p.of.memory.real)
		if err != nil {
			return 0, nil, err
		}
		all = append(all, Exported{Number: p.of.memory.number, Shared: name, Size: p.of.size})
	}
	for _, p := range places {
		p.of.shares++
		p.of.memory.exported = true
	}
	return places[0].at, all, nil
}

// Unexport takes back one Export of a range that is mapped as it was then. A process that has it
// already keeps it.
func (d *Device) Unexport(addr mem.Addr, size mem.Bytes) {
	for _, p := range d.behind(addr, size) {
		p.of.shares--
	}
}

// Shared returns the memory of handles that Export keeps awake, and what is imported.
func (d *Device) Shared() (exported, imported mem.Bytes) {
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

// Import maps what Export of another process returned, one handle after the other, and returns
// where. It does not sleep, and no peer may use it. With an error nothing is mapped.
func (d *Device) Import(all []Exported) (at mem.Addr, err error) {
	to, can := d.Device.(device.Exporter)
	if !can {
		return 0, fmt.Errorf("memory of other processes cannot be mapped on %s", d.Name())
	}
	var size mem.Bytes
	for _, e := range all {
		if e.Size <= 0 || e.Size%mem.HandleSize != 0 {
			return 0, fmt.Errorf("a handle of %d bytes is named: expected a multiple of %d, as exported", e.Size, mem.HandleSize)
		}
		if size += e.Size; size < 0 || size > 1<<62 {
			return 0, errors.New("the handles that are named have more than 2^62 bytes together")
		}
	}
	if size == 0 {
		return 0, errors.New("no handle is given: pass those that Export returned")
	}
	if at, err = d.Device.Reserve(size); err != nil {
		return 0, err
	}
	var mapped mem.Bytes
	for _, e := range all {
		if err = to.MapShared(at+mem.Addr(mapped), e.Shared, e.Size); err != nil {
			break
		}
		mapped += e.Size
	}
	if err == nil {
		err = d.Device.Access(at, size)
	}
	if err != nil {
		return 0, errors.Join(err, d.undo(at, mapped, size))
	}
	d.imports[at] = size
	return at, nil
}

// EndImport unmaps what Import has mapped at an address. No pending work may use it.
func (d *Device) EndImport(at mem.Addr) (known bool, err error) {
	size, known := d.imports[at]
	if !known {
		return false, nil
	}
	delete(d.imports, at)
	return true, d.undo(at, size, size)
}

// undo unmaps as much of a reservation as is mapped, and gives it back.
func (d *Device) undo(at mem.Addr, mapped, size mem.Bytes) error {
	if mapped > 0 {
		if err := d.Device.Unmap(at, mapped); err != nil {
			return err
		}
	}
	return d.Device.Unreserve(at, size)
}

// Close implements device.Device, and ends what is still imported.
func (d *Device) Close() error {
	var errs []error
	for at, size := range d.imports {
		errs = append(errs, d.undo(at, size, size))
	}
	clear(d.imports)
	return errors.Join(append(errs, d.Device.Close())...)
}
