package sim

import (
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// FirstMade is the first stream that NewStream returns, the next ones follow: no program has one of
// that number.
const FirstMade = mem.StreamID(1)<<48 + 1

// NewStream implements device.Mover.
func (d *Device) NewStream() (mem.StreamID, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.madeStreams++
	return FirstMade + mem.StreamID(d.madeStreams-1), nil
}

// DropStream implements device.Mover. Its work ends.
func (d *Device) DropStream(id mem.StreamID) error {
	d.Finish(id)
	return nil
}

// Await implements device.Mover.
func (d *Device) Await(id mem.StreamID, f driver.Fence) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x, there := d.fences[f]; there && x.stream.passed < x.at {
		s := d.stream(id)
		s.behind = append(s.behind, behind{s.last, x.stream, x.at})
	}
	return nil
}

// CopyOut implements device.Mover: a use, since there are no contents.
func (d *Device) CopyOut(to []byte, from mem.Addr, on mem.StreamID) error {
	return d.Use(on, from, mem.Bytes(len(to)))
}

// CopyBack implements device.Mover.
func (d *Device) CopyBack(to mem.Addr, from []byte, on mem.StreamID) error {
	return d.Use(on, to, mem.Bytes(len(from)))
}
