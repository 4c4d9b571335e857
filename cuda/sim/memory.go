package sim

import (
	"stalloc/internal/cost"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// page is mem.HandleSize of a reservation.
type page struct {
	handle  uint32 // index + 1 of the handle behind it, 0: none
	part    uint32 // which of the handle's pages it is
	pending int32  // uses by work that has not passed
	access  bool
}

// reservation holds its pages up to the highest one ever mapped: a reservation
// of a terabyte costs nothing until it is used.
type reservation struct {
	pages  []page
	mapped int // handles
}

// Reserve takes address space. Sizes that are no multiple of mem.HandleSize
// are refused with error 1, more than 64 TiB with error 2, as by the driver.
func (d *Device) Reserve(size mem.Bytes) (mem.Addr, error) {
	const call = "cuMemAddressReserve"
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(&d.stats.Reserve, call, costOf(cost.Reserve, size)); err != nil {
		return 0, err
	}
	if size <= 0 || size%mem.HandleSize != 0 {
		return 0, refuse(call, codeInvalidValue, "size %d is not a positive multiple of %d", size,
			mem.HandleSize)
	}
	if size > maxReserve {
		return 0, refuse(call, driver.CodeOutOfMemory, "no %v of addresses", size)
	}
	r := d.reserved.take(size, mem.HandleSize)
	if r == nil {
		return 0, refuse(call, driver.CodeOutOfMemory, "no %v of addresses left", size)
	}
	return r.addr, nil
}

// Unreserve gives a whole reservation back; nothing may be mapped in it.
func (d *Device) Unreserve(addr mem.Addr, size mem.Bytes) error {
	const call = "cuMemAddressFree"
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(&d.stats.Unreserve, call, costOf(cost.AddressFree, size)); err != nil {
		return err
	}
	r := d.reserved.find(addr)
	if r == nil || r.addr != addr || r.size != size {
		return refuse(call, codeInvalidValue, "no reservation of %v at %#x", size, uint64(addr))
	}
	if r.data.mapped > 0 {
		return refuse(call, codeInvalidValue, "%d handles are mapped in the reservation at %#x",
			r.data.mapped, uint64(addr))
	}
	d.reserved.drop(r)
	return nil
}

// Create takes one physical handle. Sizes are refused as by Reserve.
func (d *Device) Create(size mem.Bytes) (driver.Handle, error) {
	const call = "cuMemCreate"
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(&d.stats.Create, call, costOf(cost.Create, size)); err != nil {
		return 0, err
	}
	if size <= 0 || size%mem.HandleSize != 0 {
		return 0, refuse(call, codeInvalidValue, "size %d is not a positive multiple of %d", size,
			mem.HandleSize)
	}
	if size > d.cfg.Capacity-d.used() {
		return 0, refuse(call, driver.CodeOutOfMemory, "%v of %v in use, %v asked for", d.used(),
			d.cfg.Capacity, size)
	}
	h := d.handles.create(size)
	d.peak = max(d.peak, d.used())
	return h, nil
}

// Release gives a handle up; its memory is free once nothing maps it.
func (d *Device) Release(h driver.Handle) error {
	const call = "cuMemRelease"
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.handles.find(h)
	if err := d.begin(&d.stats.Release, call, costOf(cost.Release, d.handles.size(i))); err != nil {
		return err
	}
	if i == 0 {
		return refuse(call, codeInvalidValue, "no handle %#x", uint64(h))
	}
	d.handles.release(i)
	return nil
}

// Map puts a handle behind the pages from addr on.
func (d *Device) Map(addr mem.Addr, h driver.Handle) error {
	const call = "cuMemMap"
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.handles.find(h)
	if err := d.begin(&d.stats.Map, call, costOf(cost.Map, d.handles.size(i))); err != nil {
		return err
	}
	if i == 0 {
		return refuse(call, codeInvalidValue, "no handle %#x", uint64(h))
	}
	return d.put(call, addr, h, i)
}

// put maps a handle, whose index + 1 is i.
func (d *Device) put(call string, addr mem.Addr, h driver.Handle, i uint32) error {
	size := d.handles.size(i)
	r, lo, hi := d.pageRange(addr, size)
	if r == nil {
		return refuse(call, codeInvalidValue, "%#x + %v are not pages of one reservation",
			uint64(addr), size)
	}
	for len(r.pages) < hi {
		r.pages = append(r.pages, page{})
	}
	for n, p := range r.pages[lo:hi] {
		if p.handle != 0 {
			return refuse(call, codeInvalidValue, "a handle is already mapped at %#x",
				uint64(addr)+uint64(n)*uint64(mem.HandleSize))
		}
	}
	for n := range r.pages[lo:hi] {
		r.pages[lo+n] = page{handle: i, part: uint32(n)}
	}
	r.mapped++
	d.handles.list[i-1].maps++
	d.held(addr, size, h, true)
	return nil
}

// Access makes a range of whole mappings usable.
func (d *Device) Access(addr mem.Addr, size mem.Bytes) error {
	const call = "cuMemSetAccess"
	d.mu.Lock()
	defer d.mu.Unlock()
	r, lo, hi := d.pageRange(addr, size)
	if err := d.begin(&d.stats.Access, call, d.rangeCost(cost.SetAccess, cost.InRange, r, lo,
		hi)); err != nil {
		return err
	}
	if r == nil || !d.wholeMappings(r, lo, hi) {
		return refuse(call, codeInvalidValue, "%#x + %v is not wholly mapped, or cuts a mapping",
			uint64(addr), size)
	}
	for i := lo; i < hi; i++ {
		r.pages[i].access = true
	}
	return nil
}

// Unmap parts a range of whole mappings from its handles. Memory that pending work
// uses is refused with error 700 and recorded as a violation: the real driver
// would unmap it, and the work would fail.
func (d *Device) Unmap(addr mem.Addr, size mem.Bytes) error {
	const call = "cuMemUnmap"
	d.mu.Lock()
	defer d.mu.Unlock()
	r, lo, hi := d.pageRange(addr, size)
	if err := d.begin(&d.stats.Unmap, call, d.rangeCost(cost.Unmap, 0, r, lo, hi)); err != nil {
		return err
	}
	if r == nil || !d.wholeMappings(r, lo, hi) {
		return refuse(call, codeInvalidValue, "%#x + %v is not wholly mapped, or cuts a mapping",
			uint64(addr), size)
	}
	for i := lo; i < hi; i++ {
		if r.pages[i].pending > 0 {
			return d.violate(refuse(call, codeIllegalAddress, "pending work uses %#x",
				uint64(addr)+uint64(i-lo)*uint64(mem.HandleSize)))
		}
	}
	for i := lo; i < hi; i++ {
		if h := r.pages[i].handle; r.pages[i].part == 0 {
			d.held(addr+mem.Addr(i-lo)*mem.Addr(mem.HandleSize), d.handles.size(h),
				d.handles.value(h), false)
			d.handles.unmap(h)
			r.mapped--
		}
		r.pages[i] = page{}
	}
	return nil
}

func (d *Device) held(addr mem.Addr, size mem.Bytes, h driver.Handle, held bool) {
	if d.cfg.Held != nil {
		d.cfg.Held(addr, size, h, held)
	}
}

// Behind returns the handle that is mapped at addr, also if it was released since,
// the place of addr in it, and whether there is one. With it a test follows a block
// to the memory itself: two addresses may be one byte.
func (d *Device) Behind(addr mem.Addr) (h driver.Handle, at mem.Offset, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, lo, hi := d.covering(addr, 1)
	if r == nil || !r.allMapped(lo, hi) {
		return 0, 0, false
	}
	p := r.pages[lo]
	at = mem.Offset(p.part)*mem.Offset(mem.HandleSize) + mem.Offset(mem.Bytes(addr)%mem.HandleSize)
	return driver.Handle(uint64(d.handles.list[p.handle-1].reuse)<<32 | uint64(p.handle)), at, true
}

// pageRange finds the pages [lo, hi) of the one reservation that the range
// lies in. It returns nil when the range is empty, not made of whole pages, or
// not inside one reservation.
func (d *Device) pageRange(addr mem.Addr, size mem.Bytes) (r *reservation, lo, hi int) {
	if size <= 0 || size%mem.HandleSize != 0 || mem.Bytes(addr)%mem.HandleSize != 0 {
		return nil, 0, 0
	}
	s := d.reserved.find(addr)
	if s == nil || size > s.size-mem.Bytes(addr-s.addr) {
		return nil, 0, 0
	}
	lo = int(mem.Bytes(addr-s.addr) / mem.HandleSize)
	return &s.data, lo, lo + int(size/mem.HandleSize)
}

func (r *reservation) allMapped(lo, hi int) bool {
	if hi > len(r.pages) {
		return false
	}
	for _, p := range r.pages[lo:hi] {
		if p.handle == 0 {
			return false
		}
	}
	return true
}

// wholeMappings reports whether the pages [lo, hi) are mapped and no mapping goes on
// beyond them.
func (d *Device) wholeMappings(r *reservation, lo, hi int) bool {
	if !r.allMapped(lo, hi) || r.pages[lo].part != 0 {
		return false
	}
	last := r.pages[hi-1]
	return mem.Bytes(last.part+1)*mem.HandleSize == d.handles.list[last.handle-1].size
}
