package sleeper

import (
	"errors"
	"fmt"

	"stalloc/actors/device"
	"stalloc/internal/mem"
)

// Import maps what Export of another process returned, one handle after the other, and returns
// where. It does not sleep, and no peer may use it. With an error nothing is mapped.
func (d *Device) Import(all []Exported) (at mem.Addr, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	to, can := d.Device.(device.Exporter)
	if !can {
		return 0, fmt.Errorf("memory of other processes cannot be mapped on %s", d.Name())
	}
	var size mem.Bytes
	for _, e := range all {
		if e.Size <= 0 || e.Size%mem.HandleSize != 0 {
			return 0, fmt.Errorf("a handle of %d bytes is named: expected a multiple of %d, as exported", e.Size, mem.HandleSize)
		}
		size += e.Size
	}
	if size == 0 {
		return 0, errors.New("no handle is named")
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
	d.mu.Lock()
	defer d.mu.Unlock()
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
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for at, size := range d.imports {
		errs = append(errs, d.undo(at, size, size))
	}
	clear(d.imports)
	return errors.Join(append(errs, d.Device.Close())...)
}
