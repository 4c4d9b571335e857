package backup

import (
	"errors"
	"sync"
	"testing"

	"go.uber.org/zap"

	"stalloc/actors/device"
	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/live/hostmem"
)

// pins is a device that knows what is pinned for it, by several threads.
type pins struct {
	device.Device
	mu        sync.Mutex
	now, ever int
	size      mem.Bytes // of what is pinned now
}

func (*pins) Read([]byte, mem.Addr) error  { return nil }
func (*pins) Write(mem.Addr, []byte) error { return nil }

func (d *pins) Pin(memory []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now++
	d.ever++
	d.size += mem.Bytes(len(memory))
	return nil
}

func (d *pins) Unpin(memory []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now--
	d.size -= mem.Bytes(len(memory))
	return nil
}

// TestSpare: whole pieces are kept while the host has ample memory, and no longer than the store.
// They make way for regions.
func TestSpare(t *testing.T) {
	dev, free, ample := &pins{}, mem.GiB, true // of the host
	s := New(dev, zap.NewNop())
	s.host.ample = func() bool { return ample }
	s.host.check = func(n mem.Bytes) error {
		if n > free {
			return hostmem.ErrFull
		}
		return nil
	}
	s.host.room = func(n mem.Bytes) (mem.Bytes, error) { return min(n, free), s.host.check(n) }
	kept := func(why string, now, ever int, errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil || dev.now != now || dev.ever != ever {
			t.Errorf("%s: %d are pinned, ever %d: %v", why, dev.now, dev.ever, err)
		}
	}
	var pieces []*Piece
	take := func(sizes ...mem.Bytes) {
		pieces = nil
		for _, n := range sizes {
			x, err := s.obtain(n)
			if err != nil {
				t.Fatal(err)
			}
			pieces = append(pieces, x)
		}
	}
	take(pieceSize, pieceSize, mem.MiB)
	kept("a piece that is not whole goes back", 2, 3, s.Keep(pieces)())
	take(pieceSize, pieceSize, pieceSize)
	kept("two are taken again", 3, 4, s.Keep(pieces)())
	if n := s.Spare(); n != 3*pieceSize {
		t.Errorf("%v are spare", n)
	}
	ample = false
	take(pieceSize)
	kept("the host has little", 0, 4, s.Keep(pieces)())
	ample, free = true, 2*pieceSize
	take(pieceSize, pieceSize)
	err := s.Keep(pieces)()
	n, short := s.Room(pieceSize)
	kept("regions have room", 2, 6, err, short)
	if n != pieceSize {
		t.Errorf("%v is the room of one piece", n)
	}
	if n, err := s.Room(3 * pieceSize); n != free || !errors.Is(err, hostmem.ErrFull) {
		t.Errorf("the room is %v: %v", n, err)
	}
	kept("spare pieces make way", 0, 6)
	take(pieceSize, pieceSize)
	err = s.Keep(pieces)()
	kept("one has no use", 1, 8, err, s.Bound(pieceSize))
	kept("it ends", 0, 8, s.End())
	take(pieceSize)
	kept("after the end", 0, 9, s.Keep(pieces)())
}

// copies returns one of each size.
func copies(sizes ...mem.Bytes) map[uint64]*Copy {
	all := map[uint64]*Copy{}
	for i, n := range sizes {
		x := &Copy{}
		x.Add(engine.Block{Addr: mem.Addr(i) << 40, Size: n})
		all[uint64(i)] = x
	}
	return all
}

// TestSaveWithSpare: a small copy takes no whole piece, which would hold more than is checked and
// told; and pieces that no copy can use make way.
func TestSaveWithSpare(t *testing.T) {
	dev, most := &pins{}, mem.GiB
	s := New(dev, zap.NewNop())
	s.host.check = func(n mem.Bytes) error {
		if n > most-dev.size {
			return hostmem.ErrFull
		}
		return nil
	}
	saved := func(free mem.Bytes, want error, sizes ...mem.Bytes) {
		t.Helper()
		most = free
		x := copies(sizes...)
		if err := s.Save(x); !errors.Is(err, want) {
			t.Errorf("%v: %v, want %v", sizes, err, want)
		}
		told := s.Spare()
		for _, c := range x {
			told += c.Kept()
		}
		if over := dev.size - told; over < 0 || over > 64*mem.KiB || dev.size > most {
			t.Errorf("%v: %v of %v are pinned, and %v told", sizes, dev.size, most, told)
		}
		most = mem.GiB
		if err := s.Keep(taken(x))(); err != nil {
			t.Error(err)
		}
	}
	saved(4*pieceSize, nil, 4*pieceSize)
	for range 9 { // in any order
		saved(4*pieceSize+2*mem.MiB, nil, mem.MiB, 4*pieceSize, mem.MiB)
		saved(4*pieceSize+mem.MiB, hostmem.ErrFull, mem.MiB, 4*pieceSize, mem.MiB)
	}
	saved(4*pieceSize, nil, 3*pieceSize, mem.MiB)
	for range 3 {
		saved(4*pieceSize, nil, pieceSize-512) // rounded to whole pages
	}
	saved(3*pieceSize, hostmem.ErrFull, 4*pieceSize)
}
