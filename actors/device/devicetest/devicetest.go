// Package devicetest is the one suite that every implementation of
// device.Device passes: the simulated device, the driver's table over a simulated
// libcuda, and a real GPU. Fault is a device whose calls fail.
//
// It checks the rules and the error codes that were seen on a real driver, and
// leaves out what that driver lets pass or crashes on where our own devices
// answer with an error. Every test opens a device of its own and ends with
// Close, which must find nothing leaked. A real device should be idle
// otherwise: the free memory it reports is compared.
package devicetest

import (
	"errors"
	"testing"
	"time"

	"stalloc/actors/device"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Bytes is what a device offers whose memory has contents.
type Bytes interface {
	Read(to []byte, from mem.Addr) error
	Write(to mem.Addr, from []byte) error
}

// Streams is what a device offers whose streams have to be made.
type Streams interface {
	NewStream() (mem.StreamID, error)
	DropStream(mem.StreamID) error
}

// Run runs the suite. open returns a fresh device; it must have at least 64 MiB
// free.
func Run(t *testing.T, open func() device.Device) {
	RunAlone(t, open)
	run(t, open, "threads", (*suite).threads)
}

// RunAlone is Run for a device that one thread uses at a time.
func RunAlone(t *testing.T, open func() device.Device) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"name", (*suite).identity},
		{"reservations", (*suite).reservations},
		{"handles", (*suite).handles},
		{"mapping", (*suite).mapping},
		{"access", (*suite).access},
		{"unmapping", (*suite).unmapping},
		{"larger handles", (*suite).larger},
		{"handles of mixed sizes", (*suite).mixed},
		{"aliasing", (*suite).aliasing},
		{"released while mapped", (*suite).releasedWhileMapped},
		{"contents move", (*suite).contentsMove},
		{"fences", (*suite).fences},
		{"full", (*suite).full},
	} {
		run(t, open, c.name, c.test)
	}
	t.Run("leaks", func(t *testing.T) {
		s := &suite{T: t, d: open()}
		s.reserve(1)
		s.create()
		if err := s.d.Close(); err == nil {
			t.Error("Close does not report a reservation and a handle that were not given back")
		}
	})
}

func run(t *testing.T, open func() device.Device, name string, test func(*suite)) {
	t.Run(name, func(t *testing.T) {
		s := &suite{T: t, d: open()}
		test(s)
		s.ok(s.d.Close(), "Close")
		s.ok(s.d.Close(), "second Close")
		if _, err := s.d.Create(mem.HandleSize); err == nil {
			t.Error("Create works on a closed device")
		}
	})
}

const page = mem.HandleSize

// suite is one test's device and the ways to use it that must not fail.
type suite struct {
	*testing.T
	d device.Device
}

func (s *suite) ok(err error, what string, args ...any) {
	s.Helper()
	if err != nil {
		s.Fatalf(what+": %v", append(args, err)...)
	}
}

// refused checks that a call failed with a driver error of this code.
func (s *suite) refused(err error, code int, what string) {
	s.Helper()
	var failure *driver.Error
	switch {
	case err == nil:
		s.Errorf("%s: not refused, want error %d", what, code)
	case !errors.As(err, &failure):
		s.Errorf("%s: %v is no *driver.Error", what, err)
	case failure.Code != code:
		s.Errorf("%s: %v, want error %d", what, err, code)
	case errors.Is(err, driver.ErrOutOfMemory) != (code == driver.CodeOutOfMemory):
		s.Errorf("%s: %v: wrongly matched as out of memory or not", what, err)
	}
}

func (s *suite) reserve(pages int) mem.Addr {
	s.Helper()
	addr, err := s.d.Reserve(mem.Bytes(pages) * page)
	s.ok(err, "Reserve of %d pages", pages)
	return addr
}

func (s *suite) create() driver.Handle {
	s.Helper()
	return s.createOf(1)
}

func (s *suite) createOf(pages int) driver.Handle {
	s.Helper()
	h, err := s.d.Create(mem.Bytes(pages) * page)
	s.ok(err, "Create of %d pages", pages)
	return h
}

// mapped reserves pages and maps a handle of its own at each.
func (s *suite) mapped(pages int) (mem.Addr, []driver.Handle) {
	s.Helper()
	addr := s.reserve(pages)
	handles := make([]driver.Handle, pages)
	for i := range handles {
		handles[i] = s.create()
		s.ok(s.d.Map(at(addr, i), handles[i]), "Map of page %d", i)
	}
	return addr, handles
}

// drop undoes mapped.
func (s *suite) drop(addr mem.Addr, handles []driver.Handle) {
	s.Helper()
	size := mem.Bytes(len(handles)) * page
	s.ok(s.d.Unmap(addr, size), "Unmap")
	for _, h := range handles {
		s.ok(s.d.Release(h), "Release")
	}
	s.ok(s.d.Unreserve(addr, size), "Unreserve")
}

func (s *suite) free() mem.Bytes {
	s.Helper()
	free, total, err := s.d.Memory()
	s.ok(err, "Memory")
	if free < 0 || free > total || total <= 0 {
		s.Fatalf("Memory: %v free of %v", free, total)
	}
	return free
}

// write and read do nothing on a device without contents.
func (s *suite) write(to mem.Addr, value byte) {
	s.Helper()
	if b, ok := s.d.(Bytes); ok {
		s.ok(b.Write(to, []byte{value}), "Write at %#x", uint64(to))
	}
}

func (s *suite) read(from mem.Addr, want byte) {
	s.Helper()
	if b, ok := s.d.(Bytes); ok {
		var got [1]byte
		s.ok(b.Read(got[:], from), "Read at %#x", uint64(from))
		if got[0] != want {
			s.Errorf("byte at %#x is %#x, want %#x", uint64(from), got[0], want)
		}
	}
}

// passes waits for a fence, which takes a real device some microseconds.
func (s *suite) passes(f driver.Fence) {
	s.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		done, err := s.d.Done(f)
		s.ok(err, "Done")
		if done {
			return
		}
	}
	s.Fatalf("fence %d has not passed within 10 s", f)
}

func at(addr mem.Addr, page int) mem.Addr {
	return addr + mem.Addr(page)*mem.Addr(mem.HandleSize)
}
