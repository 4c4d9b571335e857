package device

import (
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// watcher is what a wrapper adds to every call: before may refuse it, after
// sees the answer, refused or not. Both may run in several threads at once.
type watcher interface {
	before(*Call) error
	after(*Call)
}

// around puts a watcher around every call of a device, so that the wrappers
// need not repeat the whole interface. Name and Close are no calls to watch.
type around struct {
	Device
	watcher
}

// run makes the call unless the watcher refuses it.
func (a *around) run(c *Call, call func() error) error {
	if c.Err = a.before(c); c.Err == nil {
		c.Err = call()
	}
	a.after(c)
	return c.Err
}

// EnablePeers implements Sharer as far as the wrapped device does.
func (a *around) EnablePeers(ordinals ...int) error {
	if s, ok := a.Device.(Sharer); ok {
		return s.EnablePeers(ordinals...)
	}
	return ErrAlone
}

func (a *around) Reserve(size mem.Bytes) (mem.Addr, error) {
	c := Call{Kind: CallReserve, Size: size}
	err := a.run(&c, func() (err error) { c.Addr, err = a.Device.Reserve(size); return })
	return c.Addr, err
}

func (a *around) Unreserve(addr mem.Addr, size mem.Bytes) error {
	c := Call{Kind: CallUnreserve, Addr: addr, Size: size}
	return a.run(&c, func() error { return a.Device.Unreserve(addr, size) })
}

func (a *around) Create(size mem.Bytes) (driver.Handle, error) {
	c := Call{Kind: CallCreate, Size: size}
	err := a.run(&c, func() (err error) { c.Handle, err = a.Device.Create(size); return })
	return c.Handle, err
}

func (a *around) Release(h driver.Handle) error {
	c := Call{Kind: CallRelease, Handle: h}
	return a.run(&c, func() error { return a.Device.Release(h) })
}

func (a *around) Map(addr mem.Addr, h driver.Handle) error {
	c := Call{Kind: CallMap, Addr: addr, Handle: h}
	return a.run(&c, func() error { return a.Device.Map(addr, h) })
}

func (a *around) Access(addr mem.Addr, size mem.Bytes) error {
	c := Call{Kind: CallAccess, Addr: addr, Size: size}
	return a.run(&c, func() error { return a.Device.Access(addr, size) })
}

func (a *around) Unmap(addr mem.Addr, size mem.Bytes) error {
	c := Call{Kind: CallUnmap, Addr: addr, Size: size}
	return a.run(&c, func() error { return a.Device.Unmap(addr, size) })
}

func (a *around) Record(stream mem.StreamID) (f driver.Fence, err error) {
	err = a.run(&Call{Kind: CallRecord}, func() (err error) { f, err = a.Device.Record(stream); return })
	return f, err
}

func (a *around) Done(f driver.Fence) (passed bool, err error) {
	err = a.run(&Call{Kind: CallDone}, func() (err error) { passed, err = a.Device.Done(f); return })
	return passed, err
}

func (a *around) Sync(stream mem.StreamID) error {
	return a.run(&Call{Kind: CallSync}, func() error { return a.Device.Sync(stream) })
}

func (a *around) Malloc(size mem.Bytes) (mem.Addr, error) {
	c := Call{Kind: CallMalloc, Size: size}
	err := a.run(&c, func() (err error) { c.Addr, err = a.Device.Malloc(size); return })
	return c.Addr, err
}

func (a *around) Free(addr mem.Addr) error {
	c := Call{Kind: CallFree, Addr: addr}
	return a.run(&c, func() error { return a.Device.Free(addr) })
}

func (a *around) Memory() (free, total mem.Bytes, err error) {
	err = a.run(&Call{Kind: CallMemory}, func() (err error) { free, total, err = a.Device.Memory(); return })
	return free, total, err
}
