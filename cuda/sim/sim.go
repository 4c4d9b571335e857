// Package sim is a GPU's memory without a GPU: a device that keeps the driver's
// books, refuses what the driver refuses, and counts what the calls would cost.
//
// The idea: an allocator goes wrong in its bookkeeping, not in its bytes. So
// the simulated device holds no contents, only which handle is behind which
// page, who may use it, and which pending work uses it; every call is checked
// against that and charged the time measured on a real device. 24 GiB are
// 12 thousand pages in slices, so replays of millions of requests stay fast.
//
//	reservation      0x10000000000                     0x10000800000
//	pages            | handle 7 | handle 7 | -        | handle 2 |
//	access           | yes      | yes      |          | no       |
//	pending uses     | 2        | 0        |          | 0        |
//	                   Unmap: refused, error 700, recorded as a violation
//
// One use of a block on its way: the replay declares it with Use, which checks
// that all of it is mapped and accessible and marks its pages; Record puts a
// fence behind it; when Done reports that fence, or Sync or Finish ran, the
// pages may be unmapped.
//
// Where the driver was seen to let a mistake pass (driver 580 on an H100: it
// unmaps pages that are not mapped, and looks only at the two ends of the range
// whose access it sets) this device refuses with error 1, because a caller that
// does so has lost count. Where the driver crashes (a handle that was given up
// or never existed) it returns error 1 as well.
//
// Invariants, recounted by Check:
//   - used memory = sizes of the handles held or mapped;
//   - a mapped handle's pages follow each other, all of them;
//   - a handle's map count = first pages that name it;
//   - a page's pending count = uses in the streams' queues that cover it.
package sim

import (
	"errors"
	"fmt"
	"sync"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// DefaultCapacity is the memory of the device that New makes when told none.
const DefaultCapacity = 80 * mem.GiB

// Config describes the device to simulate. The zero value is a good device.
type Config struct {
	Name     string    // "" means "simulated device"
	Capacity mem.Bytes // physical memory; 0 means DefaultCapacity
	// FenceDelay is how many times Done answers no before a fence passes.
	FenceDelay int
	// Manual means that fences pass only by Finish or Sync.
	Manual bool
	// Held, unless it is nil, is told of every range that comes to have memory behind
	// it, or has none any longer, and which. It runs inside the call, and makes none
	// itself.
	Held func(addr mem.Addr, size mem.Bytes, h driver.Handle, held bool)
}

// Device is a simulated device. Its methods are safe for use from several
// threads, one at a time inside.
type Device struct {
	mu  sync.Mutex
	cfg Config

	reserved space[reservation]
	handles  handles
	peak     mem.Bytes

	streams     map[mem.StreamID]*stream
	fences      map[driver.Fence]fence
	fenceID     driver.Fence
	madeStreams uint64 // by NewStream

	stats      Stats
	violations []error
	violated   int
	closed     bool
}

// New returns an empty device.
func New(cfg Config) *Device {
	if cfg.Name == "" {
		cfg.Name = "simulated device"
	}
	if cfg.Capacity == 0 {
		cfg.Capacity = DefaultCapacity
	}
	return &Device{
		cfg:      cfg,
		reserved: space[reservation]{next: reservedBase, end: addressEnd},
		streams:  map[mem.StreamID]*stream{},
		fences:   map[driver.Fence]fence{},
	}
}

// Name returns the configured name.
func (d *Device) Name() string { return d.cfg.Name }

// Memory returns free and total physical memory.
func (d *Device) Memory() (free, total mem.Bytes, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(&d.stats.Memory, "cuMemGetInfo", costMemory); err != nil {
		return 0, 0, err
	}
	return d.cfg.Capacity - d.used(), d.cfg.Capacity, nil
}

// Used returns the physical memory in use: that of handles.
func (d *Device) Used() mem.Bytes {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used()
}

// Peak returns the most physical memory that was ever in use at once.
func (d *Device) Peak() mem.Bytes {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.peak
}

func (d *Device) used() mem.Bytes {
	return d.handles.resident
}

// Violations returns the recorded breaches of the rules that a real device
// would not report but answer with corrupt data: use of memory that is not
// mapped and accessible, and unmapping or freeing what pending work uses. The
// list is bounded; the last entry then says how many more there were.
func (d *Device) Violations() []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.violationList()
}

const keptViolations = 64

func (d *Device) violate(err error) error {
	d.violated++
	if len(d.violations) < keptViolations {
		d.violations = append(d.violations, err)
	}
	return err
}

func (d *Device) violationList() []error {
	list := append([]error(nil), d.violations...)
	if more := d.violated - len(list); more > 0 {
		list = append(list, fmt.Errorf("and %d more violations", more))
	}
	return list
}

// Close ends the device. The error lists what was leaked (reservations, held
// handles) and every recorded violation. A second Close does
// nothing.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	list := d.violationList()
	if r, h := len(d.reserved.spans), d.handles.held; r+h > 0 {
		list = append(list, fmt.Errorf("%s closed with %d reservations and %d handles not given back (%v of memory)",
			d.cfg.Name, r, h, d.used()))
	}
	return errors.Join(list...)
}
