package device

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Owner wraps a device and gives back, when it is closed, all memory that was
// taken through it and is still held. An allocator can so be ended at any
// moment, live blocks and all, inside a program that goes on.
type Owner struct {
	around

	// Held from before to after each call that takes or gives: an address
	// given back could otherwise be handed out again before it is crossed out.
	mu       sync.Mutex
	closed   bool
	reserved map[mem.Addr]mem.Bytes
	mapped   map[mem.Addr]mem.Bytes // by where a mapping begins
	handles  map[driver.Handle]mem.Bytes
	plain    map[mem.Addr]struct{}
}

// NewOwner notes what is taken from d from now on. Handles from before are not to
// be mapped through it: their size is not known.
func NewOwner(d Device) *Owner {
	o := &Owner{
		reserved: map[mem.Addr]mem.Bytes{},
		mapped:   map[mem.Addr]mem.Bytes{},
		handles:  map[driver.Handle]mem.Bytes{},
		plain:    map[mem.Addr]struct{}{},
	}
	o.around = around{d, o}
	return o
}

var owned = [Kinds]bool{
	CallReserve: true, CallUnreserve: true, CallCreate: true, CallRelease: true,
	CallMap: true, CallUnmap: true, CallMalloc: true, CallFree: true,
}

func (o *Owner) before(c *Call) error {
	if owned[c.Kind] {
		o.mu.Lock() // until after
	}
	return nil
}

func (o *Owner) after(c *Call) {
	if !owned[c.Kind] {
		return
	}
	defer o.mu.Unlock()
	if c.Err != nil {
		return
	}
	switch c.Kind {
	case CallReserve:
		o.reserved[c.Addr] = c.Size
	case CallUnreserve:
		delete(o.reserved, c.Addr)
	case CallCreate:
		o.handles[c.Handle] = c.Size
	case CallRelease:
		delete(o.handles, c.Handle)
	case CallMap:
		o.mapped[c.Addr] = o.handles[c.Handle]
	case CallUnmap:
		for at, end := c.Addr, c.Addr+mem.Addr(c.Size); at < end; at += mem.Addr(mem.HandleSize) {
			delete(o.mapped, at)
		}
	case CallMalloc:
		o.plain[c.Addr] = struct{}{}
	case CallFree:
		delete(o.plain, c.Addr)
	}
}

// Close gives everything back and closes the device. No pending work may use
// that memory and no other call may be under way. A second Close does nothing.
func (o *Owner) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	var errs []error
	for at, size := range o.runs() {
		errs = append(errs, o.Device.Unmap(at, size))
	}
	for h := range o.handles {
		errs = append(errs, o.Device.Release(h))
	}
	for at, size := range o.reserved {
		errs = append(errs, o.Device.Unreserve(at, size))
	}
	for at := range o.plain {
		errs = append(errs, o.Device.Free(at))
	}
	return errors.Join(append(errs, o.Device.Close())...)
}

// runs joins neighbouring mappings of one reservation: unmapping them one by one
// would take as many calls as there are handles.
func (o *Owner) runs() map[mem.Addr]mem.Bytes {
	runs := map[mem.Addr]mem.Bytes{}
	var start mem.Addr
	for _, at := range slices.Sorted(maps.Keys(o.mapped)) {
		if _, first := o.reserved[at]; len(runs) == 0 || first || at != start+mem.Addr(runs[start]) {
			start = at
		}
		runs[start] += o.mapped[at]
	}
	return runs
}
