package actors

import (
	"fmt"

	"stalloc/actors/device"
	"stalloc/actors/host"
	"stalloc/internal/mem"
)

// Local is a device that serves Go callers.
type Local struct {
	*Device
	host *host.Model
}

// OpenLocal opens a device for Go callers.
func OpenLocal(dev device.Device, opts Options) (*Local, error) {
	h := host.NewModel()
	d, err := Open(dev, h, opts)
	if err != nil {
		return nil, err
	}
	return NewLocal(d, h), nil
}

// NewLocal serves Go callers from a device whose host is a Model, as it is or with
// something around it.
func NewLocal(d *Device, host *host.Model) *Local { return &Local{d, host} }

// Malloc returns a block of at least size bytes for work on a stream. Size zero
// gives no block and no error.
func (l *Local) Malloc(id mem.StreamID, size mem.Bytes) (mem.Addr, error) {
	return l.MallocIn(id, 0, size)
}

// MallocIn is Malloc of a private pool, such as Region names.
func (l *Local) MallocIn(id mem.StreamID, pool uint64, size mem.Bytes) (mem.Addr, error) {
	if size <= 0 {
		if size < 0 {
			return 0, fmt.Errorf("a block of %d bytes was asked for", size)
		}
		return 0, nil
	}
	addr, err := l.Serve(id, pool, size)
	if err == nil {
		l.host.AddLoad(mem.Round(size))
	}
	return addr, err
}

// PersistentStream says that a stream is never destroyed, as the default stream is: free memory of
// it may serve other streams.
func (l *Local) PersistentStream(id mem.StreamID) { l.host.SetPersistent(id) }

// Release frees a block by its address.
func (l *Local) Release(addr mem.Addr) error {
	if addr == 0 {
		return nil
	}
	freed, err := l.Free(addr)
	if err != nil {
		return fmt.Errorf("free of %#x: %w", uint64(addr), err)
	}
	l.host.AddLoad(-freed.Size)
	return nil
}

// LostEvents counts the requests and frees that the planner did not see: there were too
// many in a step, or the steps ended too fast.
func (l *Local) LostEvents() uint64 { return l.host.Lost() + l.counts.dropped.Load() }

// Load returns the sum of live rounded sizes and its peak.
func (l *Local) Load() (now, peak mem.Bytes) {
	return l.host.Load(), l.host.Peak()
}
