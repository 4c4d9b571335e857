package sim

import (
	"stalloc/internal/cost"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// smallPlain is the largest plain block that shares its chunk with others: the
// driver packs small blocks into chunks of mem.HandleSize and gives larger ones
// whole chunks. The packing itself is modelled as perfect.
const smallPlain = mem.HandleSize / 2

type plainBlock struct {
	pending int
}

// Malloc is the driver's plain allocation.
func (d *Device) Malloc(size mem.Bytes) (mem.Addr, error) {
	const call = "cuMemAlloc"
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(&d.stats.Malloc, call, costOf(cost.MemAlloc, size)); err != nil {
		return 0, err
	}
	if size <= 0 {
		return 0, refuse(call, codeInvalidValue, "size %d is not positive", size)
	}
	if size > d.cfg.Capacity {
		return 0, refuse(call, driver.CodeOutOfMemory, "%v of a device of %v", size, d.cfg.Capacity)
	}
	take, class, align := mem.Round(size), &d.small, mem.Grain
	if size > smallPlain {
		take, class, align = mem.RoundUp(size, mem.HandleSize), &d.large, mem.HandleSize
	}
	*class += take
	if d.used() > d.cfg.Capacity {
		*class -= take
		return 0, refuse(call, driver.CodeOutOfMemory, "%v more than %v of %v", take, d.used(), d.cfg.Capacity)
	}
	b := d.plain.take(take, align)
	if b == nil {
		*class -= take
		return 0, refuse(call, driver.CodeOutOfMemory, "no %v of addresses left", take)
	}
	d.peak = max(d.peak, d.used())
	d.held(b.addr, take, true)
	return b.addr, nil
}

// Free gives a plain block back. Address 0 is accepted and ignored, as by the
// driver. A block that pending work uses is refused and recorded: the driver
// would stall the whole device until the work is done, and an allocator must
// not lean on that.
func (d *Device) Free(addr mem.Addr) error {
	const call = "cuMemFree"
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.plain.find(addr)
	var size mem.Bytes
	if b != nil {
		size = b.size
	}
	if err := d.begin(&d.stats.Free, call, costOf(cost.MemFree, size)); err != nil {
		return err
	}
	if addr == 0 {
		return nil
	}
	if b == nil || b.addr != addr {
		return refuse(call, codeInvalidValue, "no plain block at %#x", uint64(addr))
	}
	if b.data.pending > 0 {
		return d.violate(refuse(call, codeIllegalAddress, "pending work uses the block at %#x", uint64(addr)))
	}
	d.held(b.addr, b.size, false)
	if b.size > smallPlain {
		d.large -= b.size
	} else {
		d.small -= b.size
	}
	d.plain.drop(b)
	return nil
}
