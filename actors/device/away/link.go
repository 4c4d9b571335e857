package away

import (
	"errors"
	"fmt"
	"slices"

	"stalloc/actors/device"
	"stalloc/actors/device/sleeper"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Link is a device and its two copy streams, made with the first region.
type Link struct {
	dev       *sleeper.Device
	move      device.Mover
	out, back mem.StreamID
	stale     []driver.Fence // nobody waits for them any more
}

// NewLink makes the streams. The error says that the device cannot copy beside the program.
func NewLink(dev *sleeper.Device) (*Link, error) {
	move, can := dev.Device.(device.Mover)
	if !can {
		return nil, fmt.Errorf("the contents of %s cannot be moved beside the program", dev.Name())
	}
	l := &Link{dev: dev, move: move}
	var err error
	if l.out, err = move.NewStream(); err != nil {
		return nil, err
	}
	if l.back, err = move.NewStream(); err != nil {
		return nil, errors.Join(err, move.DropStream(l.out))
	}
	return l, nil
}

// Close gives the streams back, once their copies have passed. Later copies are the default
// stream's.
func (l *Link) Close() error {
	if l.out == 0 {
		return nil
	}
	err := errors.Join(l.dev.Sync(), l.move.DropStream(l.out), l.move.DropStream(l.back))
	l.out, l.back = 0, 0
	return err
}

// order has what a stream is given from now on begin behind events, where they are.
func (l *Link) order(stream mem.StreamID, behind ...driver.Fence) error {
	for _, f := range behind {
		if f == 0 {
			continue
		}
		if err := l.move.Await(stream, f); err != nil {
			return err
		}
	}
	return nil
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

// copyOut begins to copy a part to its mirror.
func (l *Link) copyOut(p *part) error {
	at, err := l.usable(p)
	if err != nil {
		return err
	}
	return l.move.CopyOut(p.host.memory, at, l.out)
}

// copyBack begins to copy a part from its mirror.
func (l *Link) copyBack(p *part) error {
	at, err := l.usable(p)
	if err != nil {
		return err
	}
	return l.move.CopyBack(at, p.host.memory, l.back)
}

// usable returns where a part can be copied: where calls of the driver have failed it may have
// other places, too.
func (l *Link) usable(p *part) (mem.Addr, error) {
	at, usable := l.dev.Usable(p.handle)
	if !usable {
		return 0, fmt.Errorf("%v at %#x cannot be used", p.size, uint64(p.at))
	}
	return at, nil
}
