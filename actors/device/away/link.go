package away

import (
	"errors"
	"fmt"
	"slices"

	"stalloc/actors/device"
	"stalloc/actors/device/backup"
	"stalloc/actors/device/sleeper"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Link is a device and its two copy streams, made with the first region.
type Link struct {
	dev       *sleeper.Device
	host      *backup.Store
	move      device.Mover // nil: there are no streams yet
	out, back mem.StreamID
	stale     []driver.Fence // nobody waits for them any more
}

// NewLink returns a link without streams.
func NewLink(dev *sleeper.Device, host *backup.Store) *Link { return &Link{dev: dev, host: host} }

// open makes the streams. The error says that the device cannot copy beside the program.
func (l *Link) open() (err error) {
	move, can := l.dev.Device.(device.Mover)
	if !can {
		return fmt.Errorf("%s cannot copy memory while the program runs", l.dev.Name())
	}
	if l.out, err = move.NewStream(); err != nil {
		return err
	}
	if l.back, err = move.NewStream(); err != nil {
		return errors.Join(err, move.DropStream(l.out))
	}
	l.move = move
	return nil
}

// Close gives the streams back, once their copies have passed. Later copies are the default
// stream's.
func (l *Link) Close() error {
	if l.move == nil || l.out == 0 {
		return nil
	}
	err := errors.Join(l.dev.Sync(), l.move.DropStream(l.out), l.move.DropStream(l.back))
	l.out, l.back = 0, 0
	return err
}

// forget gives an event up that nobody waits for any more. The device has it until it is told that
// it has passed, so those given up before are asked about.
func (l *Link) forget(f *driver.Fence) {
	if *f != 0 {
		l.stale = append(l.stale, *f)
	}
	*f = 0
	l.stale = slices.DeleteFunc(l.stale, func(f driver.Fence) bool {
		passed, err := l.dev.Done(f)
		return passed || err != nil
	})
}

// copy begins to copy a part to its backup, or back, at a place that can be used: where calls of
// the driver have failed it may have others, too.
func (l *Link) copy(p *part, back bool) error {
	at, usable := l.dev.Usable(p.handle)
	switch {
	case !usable:
		return fmt.Errorf("%v at %#x cannot be used", p.size, uint64(p.at))
	case back:
		return l.move.CopyBack(at, p.host.Memory, l.back)
	}
	return l.move.CopyOut(p.host.Memory, at, l.out)
}
