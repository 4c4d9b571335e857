package backup

import (
	"errors"
	"sync"
	"testing"

	"go.uber.org/zap"

	"stalloc/actors/device"
	"stalloc/internal/mem"
	"stalloc/live/hostmem"
)

// pins is a device that knows what is pinned for it, by several threads.
type pins struct {
	device.Device
	device.Copier
	mu        sync.Mutex
	now, ever int
}

func (d *pins) Pin([]byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now++
	d.ever++
	return nil
}

func (d *pins) Unpin([]byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now--
	return nil
}

// TestSpare: whole pieces are kept while as much again is free, and no longer than the store. They
// make way for regions.
func TestSpare(t *testing.T) {
	dev, free := &pins{}, mem.GiB // of the host
	s := New(dev, zap.NewNop())
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
	kept("a piece that is not whole goes back", 2, 3, s.Keep(pieces))
	take(mem.MiB, pieceSize, pieceSize)
	kept("two are taken again", 3, 4, s.Keep(pieces))
	if n := s.Spare(); n != 3*pieceSize {
		t.Errorf("%v are spare", n)
	}
	free = 3*pieceSize - 1
	take(pieceSize)
	kept("the host has less", 0, 4, s.Keep(pieces))
	free = 2 * pieceSize
	take(pieceSize, pieceSize)
	err := s.Keep(pieces)
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
	err = s.Keep(pieces)
	kept("one has no use", 1, 8, err, s.Bound(pieceSize))
	kept("it ends", 0, 8, s.End())
	take(pieceSize)
	kept("after the end", 0, 9, s.Keep(pieces))
}
