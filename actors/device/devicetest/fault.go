package devicetest

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"stalloc/actors/device"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Kind is one of the calls a device serves.
type Kind uint8

// The kinds, in the order of the interface. AnyCall stands for all of them in a
// Rule.
const (
	CallReserve Kind = iota
	CallUnreserve
	CallCreate
	CallRelease
	CallMap
	CallAccess
	CallUnmap
	CallRecord
	CallDone
	CallSync
	CallMemory
	CallStream // makes one
	CallCopy
	CallAwait
	AnyCall // in a Rule
)

var drivers = [...]string{
	CallReserve:   "cuMemAddressReserve",
	CallUnreserve: "cuMemAddressFree",
	CallCreate:    "cuMemCreate",
	CallRelease:   "cuMemRelease",
	CallMap:       "cuMemMap",
	CallAccess:    "cuMemSetAccess",
	CallUnmap:     "cuMemUnmap",
	CallRecord:    "cuEventRecord",
	CallDone:      "cuEventQuery",
	CallSync:      "cuCtxSynchronize",
	CallMemory:    "cuMemGetInfo",
	CallStream:    "cuStreamCreate",
	CallCopy:      "cuMemcpyAsync",
	CallAwait:     "cuStreamWaitEvent",
	AnyCall:       "any driver call",
}

// Driver returns the name of the driver's function behind the method.
func (k Kind) Driver() string { return drivers[k] }

// Rule says which calls fail and how.
type Rule struct {
	Kind Kind // or AnyCall
	// Nth is the one call that fails, counted from 1 since the rule was set.
	// If it is 0, Chance decides.
	Nth int
	// Chance is the part of the calls that fail, at random. 0 means all.
	Chance float64
	Code   int // the driver error, such as driver.CodeOutOfMemory
}

// Fault wraps a device and makes calls fail: a refused call does not reach the
// device, and its error is a *driver.Error as the driver would give it.
type Fault struct {
	device.Device

	mu       sync.Mutex
	rules    []Rule
	seen     []int // calls by rule
	random   *rand.Rand
	injected int
}

// NewFault makes calls of d fail by the rules; the seed decides those left to
// chance, so that the same calls in the same order fail alike again.
func NewFault(d device.Device, seed uint64, rules ...Rule) *Fault {
	f := &Fault{Device: d, random: rand.New(rand.NewPCG(seed, 0))}
	f.Set(rules...)
	return f
}

// Set replaces the rules and starts counting calls anew.
func (f *Fault) Set(rules ...Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = rules
	f.seen = make([]int, len(rules))
}

// Injected returns how many calls were made to fail so far.
func (f *Fault) Injected() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.injected
}

// fails counts a call and returns its error if it is to fail.
func (f *Fault) fails(k Kind) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	for i, r := range f.rules {
		if r.Kind != k && r.Kind != AnyCall {
			continue
		}
		f.seen[i]++
		if err == nil && f.hits(r, f.seen[i]) {
			f.injected++
			err = fmt.Errorf("injected fault: %w", &driver.Error{Call: k.Driver(), Code: r.Code})
		}
	}
	return err
}

func (f *Fault) hits(r Rule, n int) bool {
	if r.Nth != 0 {
		return n == r.Nth
	}
	return r.Chance == 0 || f.random.Float64() < r.Chance
}

// called makes a call unless it is to fail.
func called[R any](f *Fault, k Kind, call func() (R, error)) (result R, err error) {
	if err = f.fails(k); err != nil {
		return result, err
	}
	return call()
}

// ended is called of a call that only fails or not.
func ended(f *Fault, k Kind, call func() error) error {
	if err := f.fails(k); err != nil {
		return err
	}
	return call()
}

// EnablePeers implements Sharer as far as the wrapped device does.
func (f *Fault) EnablePeers(ordinals ...int) error {
	if s, ok := f.Device.(device.Sharer); ok {
		return s.EnablePeers(ordinals...)
	}
	return device.ErrAlone
}

// mover is the wrapped device as one that copies.
func (f *Fault) mover() device.Mover { return f.Device.(device.Mover) }

// NewStream implements device.Mover, as the following do.
func (f *Fault) NewStream() (mem.StreamID, error) {
	return called(f, CallStream, f.mover().NewStream)
}

func (f *Fault) DropStream(id mem.StreamID) error { return f.mover().DropStream(id) }

func (f *Fault) CopyOut(to []byte, from mem.Addr, on mem.StreamID) error {
	return ended(f, CallCopy, func() error { return f.mover().CopyOut(to, from, on) })
}

func (f *Fault) CopyBack(to mem.Addr, from []byte, on mem.StreamID) error {
	return ended(f, CallCopy, func() error { return f.mover().CopyBack(to, from, on) })
}

func (f *Fault) Await(id mem.StreamID, fence driver.Fence) error {
	return ended(f, CallAwait, func() error { return f.mover().Await(id, fence) })
}

func (f *Fault) Reserve(size mem.Bytes) (mem.Addr, error) {
	return called(f, CallReserve, func() (mem.Addr, error) { return f.Device.Reserve(size) })
}

func (f *Fault) Unreserve(addr mem.Addr, size mem.Bytes) error {
	return ended(f, CallUnreserve, func() error { return f.Device.Unreserve(addr, size) })
}

func (f *Fault) Create(size mem.Bytes) (driver.Handle, error) {
	return called(f, CallCreate, func() (driver.Handle, error) { return f.Device.Create(size) })
}

func (f *Fault) Release(h driver.Handle) error {
	return ended(f, CallRelease, func() error { return f.Device.Release(h) })
}

func (f *Fault) Map(addr mem.Addr, h driver.Handle) error {
	return ended(f, CallMap, func() error { return f.Device.Map(addr, h) })
}

func (f *Fault) Access(addr mem.Addr, size mem.Bytes) error {
	return ended(f, CallAccess, func() error { return f.Device.Access(addr, size) })
}

func (f *Fault) Unmap(addr mem.Addr, size mem.Bytes) error {
	return ended(f, CallUnmap, func() error { return f.Device.Unmap(addr, size) })
}

func (f *Fault) Record(stream mem.StreamID) (driver.Fence, error) {
	return called(f, CallRecord, func() (driver.Fence, error) { return f.Device.Record(stream) })
}

func (f *Fault) Done(x driver.Fence) (bool, error) {
	return called(f, CallDone, func() (bool, error) { return f.Device.Done(x) })
}

func (f *Fault) Sync() error {
	return ended(f, CallSync, func() error { return f.Device.Sync() })
}

func (f *Fault) Memory() (free, total mem.Bytes, err error) {
	err = ended(f, CallMemory, func() (err error) { free, total, err = f.Device.Memory(); return })
	return free, total, err
}
