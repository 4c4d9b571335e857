package sim

import (
	"fmt"
	"strconv"

	"stalloc/internal/cost"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Export implements device.Exporter: every handle has a fabric's name, which this device knows
// alone.
func (d *Device) Export(h driver.Handle) (driver.Shared, error) {
	const call = "cuMemExportToShareableHandle"
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.handles.find(h) == 0 {
		return driver.Shared{}, refuse(call, codeInvalidValue, "no handle %#x", uint64(h))
	}
	return driver.Shared{FD: -1, Fabric: name(h)}, nil
}

func name(h driver.Handle) string { return fmt.Sprintf("%0*x", driver.FabricName, uint64(h)) }

// MapShared implements device.Exporter.
func (d *Device) MapShared(addr mem.Addr, s driver.Shared, size mem.Bytes) error {
	const call = "cuMemImportFromShareableHandle"
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(&d.stats.Map, call, costOf(cost.Map, size)); err != nil {
		return err
	}
	h, err := strconv.ParseUint(s.Fabric, 16, 64)
	i := d.handles.find(driver.Handle(h))
	if err != nil || i == 0 || name(driver.Handle(h)) != s.Fabric || d.handles.size(i) != size {
		return refuse(call, codeInvalidValue, "no handle of %v is exported as %q", size, s.Fabric)
	}
	return d.put(call, addr, driver.Handle(h), i)
}
