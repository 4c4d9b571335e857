package actors

import (
	"errors"
	"sync"
	"testing"

	"stalloc/actors/device"
	"stalloc/actors/pool"
	"stalloc/actors/region"
	"stalloc/cuda/sim"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// stuck is a device with contents that does not unpin some memory.
type stuck struct {
	device.Device
	mu     sync.Mutex
	pins   int // ever
	refuse bool
	pinned map[*byte]bool
}

func (d *stuck) Read([]byte, mem.Addr) error  { return nil }
func (d *stuck) Write(mem.Addr, []byte) error { return nil }

func (d *stuck) Pin(memory []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pinned[&memory[0]] = true
	d.pins++
	return nil
}

func (d *stuck) Unpin(memory []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse {
		d.refuse = false
		return driver.ErrOutOfMemory
	}
	delete(d.pinned, &memory[0])
	return nil
}

// onStuck opens a device of one GiB that is stuck.
func onStuck(t *testing.T) (*Local, *stuck) {
	t.Helper()
	gpu := &stuck{Device: sim.New(sim.Config{Capacity: mem.GiB}), pinned: map[*byte]bool{}}
	l, err := OpenLocal(gpu, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return l, gpu
}

// awaitUnpinned waits for what is unpinned beside the program.
func awaitUnpinned(l *Local) {
	_ = l.onPool(func(p *pool.Pool) error { p.AwaitUnpinned(); return nil }, nil)
}

// TestUnpinFails: pinned memory is kept for the next time. When the device is closed all are
// unpinned; what failed is told and tried again.
func TestUnpinFails(t *testing.T) {
	l, gpu := onStuck(t)
	at, err := l.Malloc(0, 320*mem.MiB)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0 // pieces; none where less than half of the host's memory is free
	for range 2 {
		again := kept
		if err := errors.Join(l.Pause(nil, true), l.Resume(nil)); err != nil {
			t.Fatal(err)
		}
		awaitUnpinned(l)
		kept = len(gpu.pinned)
		if s := l.Stats(); s.Backup != mem.Bytes(kept)*32*mem.MiB || kept > 0 && kept != 10 ||
			again > 0 && kept > 0 && gpu.pins != 10 {
			t.Errorf("%d pieces stay pinned of %d, and %v are told", kept, gpu.pins, s.Backup)
		}
	}
	gpu.refuse = true
	if err := l.Retire(); errors.Is(err, driver.ErrOutOfMemory) != (kept > 0) {
		t.Error(err)
	}
	if s := l.Stats(); len(gpu.pinned) != 0 || s.Backup != 0 {
		t.Errorf("tried again: %d pieces stay pinned, and %v are told", len(gpu.pinned), s.Backup)
	}
	if err := errors.Join(l.Release(at), l.Close()); err != nil {
		t.Error(err)
	}
}

// TestTrimAsleep: what sleeps has its copy, and no use for spare memory of the host beside it.
func TestTrimAsleep(t *testing.T) {
	l, gpu := onStuck(t)
	half, err := l.Malloc(0, 320*mem.MiB)
	_, failed := l.Malloc(0, 320*mem.MiB)
	err = errors.Join(err, failed, l.Pause(nil, true), l.Resume(nil), l.Release(half),
		l.Pause(nil, true), l.Trim(0))
	if s := l.Stats(); err != nil || s.Backup != 320*mem.MiB || len(gpu.pinned) != 10 {
		t.Errorf("320 MiB sleep: %v is kept in %d pieces, %v", s.Backup, len(gpu.pinned), err)
	}
	if err := l.Close(); err != nil || len(gpu.pinned) != 0 {
		t.Errorf("%d pieces stay pinned: %v", len(gpu.pinned), err)
	}
}

// TestTrimOnceAwake: an emptied cache finds what was kept a moment ago.
func TestTrimOnceAwake(t *testing.T) {
	l, _ := onStuck(t)
	for range 10 {
		at, err := l.Malloc(0, 64*mem.MiB)
		if err := errors.Join(err, l.Pause(nil, true), l.Release(at), l.Resume(nil),
			l.Trim(0)); err != nil {
			t.Fatal(err)
		}
		awaitUnpinned(l)
		if s := l.Stats(); s.Backup != 0 {
			t.Fatalf("nothing lives, and %v is kept", s.Backup)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestBrokenKeepsNothing: a broken pool cannot pause again.
func TestBrokenKeepsNothing(t *testing.T) {
	l, gpu := onStuck(t)
	_, err := l.Malloc(0, 64*mem.MiB)
	if err := errors.Join(err, l.Pause(nil, true), l.Resume(nil)); err != nil {
		t.Fatal(err)
	}
	awaitUnpinned(l)
	_ = l.onPool(func(*pool.Pool) error { panic("a bug") }, nil)
	if s := l.Stats(); s.Backup != 0 || len(gpu.pinned) != 0 {
		t.Errorf("%v stays in %d pieces", s.Backup, len(gpu.pinned))
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnpinOfARegionFails: what stays pinned of a region without memory is told and tried again.
func TestUnpinOfARegionFails(t *testing.T) {
	pins := &stuck{pinned: map[*byte]bool{}}
	gpu := struct {
		*sim.Device
		*stuck
	}{sim.New(sim.Config{Capacity: mem.GiB}), pins}
	l, err := OpenLocal(gpu, Options{})
	if err != nil {
		t.Fatal(err)
	}
	number, err := region.Number("test: stays pinned")
	at, failed := l.MallocIn(0, number, 64*mem.MiB)
	how := pool.Closing{Changed: true, All: true}
	if err := errors.Join(err, failed, l.EndAwake(number, 0, how), l.Release(at)); err != nil {
		t.Fatal(err)
	}
	for _, refuse := range []bool{true, false} {
		pins.refuse = refuse
		err := l.Trim(0)
		if kept := l.Stats().Backup > 0; err != nil || kept != refuse ||
			(len(pins.pinned) > 0) != refuse {
			t.Errorf("refused %v: %d pieces stay pinned, told %v: %v", refuse, len(pins.pinned),
				kept, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
