package sim

import (
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// stream is the order of work on one CUDA stream. Positions count the events
// on it: a use or a fence takes the next one, and passed is how far the device
// has come.
type stream struct {
	last, passed mem.Tick
	uses         []use // not passed yet, in order
	behind       []behind
}

// behind is what has to pass before work behind a position begins.
type behind struct {
	after mem.Tick
	other *stream
	until mem.Tick
}

// use is work that reads or writes a range.
type use struct {
	at   mem.Tick
	addr mem.Addr
	size mem.Bytes
}

type fence struct {
	stream *stream
	at     mem.Tick
	noes   int // times Done still answers no
}

// Use declares that work on the stream reads or writes the range, from now
// until the stream has passed this point. The range must be mapped and
// accessible; otherwise the violation is recorded and returned.
func (d *Device) Use(id mem.StreamID, addr mem.Addr, size mem.Bytes) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.touch("use", addr, size); err != nil {
		return err
	}
	s := d.stream(id)
	s.last++
	s.uses = append(s.uses, use{s.last, addr, size})
	d.mark(addr, size, 1)
	return nil
}

// Touch checks that the range can be used now: all of it mapped and
// accessible. If not, the violation is recorded and returned.
func (d *Device) Touch(addr mem.Addr, size mem.Bytes) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.touch("touch", addr, size)
}

// Finish lets the device come to the end of the work on the stream, without
// anyone waiting for it.
func (d *Device) Finish(id mem.StreamID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stream(id)
	d.pass(s, s.last)
}

// Place returns how much work has been queued on the stream, for FinishTo.
func (d *Device) Place(id mem.StreamID) mem.Tick { return d.place(id).until }

// FinishTo lets the device come to the end of the work that had been queued on the stream
// at a place.
func (d *Device) FinishTo(id mem.StreamID, to mem.Tick) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pass(d.stream(id), to)
}

// Record puts a fence behind the work on the stream.
func (d *Device) Record(id mem.StreamID) (driver.Fence, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(&d.stats.Record, "cuEventRecord", costRecord); err != nil {
		return 0, err
	}
	s := d.stream(id)
	s.last++
	d.fenceID++
	d.fences[d.fenceID] = fence{s, s.last, d.cfg.FenceDelay}
	return d.fenceID, nil
}

// Done reports whether the stream has passed the fence, which is then gone.
func (d *Device) Done(id driver.Fence) (bool, error) {
	const call = "cuEventQuery"
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(&d.stats.Done, call, costDone); err != nil {
		return false, err
	}
	f, ok := d.fences[id]
	if !ok {
		return false, refuse(call, codeInvalidHandle, "no fence %d", uint64(id))
	}
	if f.stream.passed < f.at {
		if d.cfg.Manual {
			return false, nil
		}
		if f.noes > 0 {
			f.noes--
			d.fences[id] = f
			return false, nil
		}
		d.pass(f.stream, f.at)
	}
	delete(d.fences, id)
	return true, nil
}

// Sync waits for all work on the device.
func (d *Device) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(&d.stats.Sync, "cuCtxSynchronize", costSync); err != nil {
		return err
	}
	for _, s := range d.streams {
		d.pass(s, s.last)
	}
	return nil
}

func (d *Device) stream(id mem.StreamID) *stream {
	s := d.streams[id]
	if s == nil {
		s = &stream{}
		d.streams[id] = s
	}
	return s
}

// pass moves the stream on to a position and ends the uses up to it.
func (d *Device) pass(s *stream, to mem.Tick) {
	for len(s.behind) > 0 && s.behind[0].after < to {
		first := s.behind[0]
		s.behind = s.behind[1:] // before: the other stream may be behind this one, too
		d.pass(first.other, first.until)
	}
	s.passed = max(s.passed, to)
	n := 0
	for n < len(s.uses) && s.uses[n].at <= s.passed {
		d.mark(s.uses[n].addr, s.uses[n].size, -1)
		n++
	}
	s.uses = s.uses[n:]
}

// mark adds to the pending counts of what lies under a touched range. The
// pages are still there when a use ends: pending ones cannot be unmapped.
func (d *Device) mark(addr mem.Addr, size mem.Bytes, by int) {
	r, lo, hi := d.covering(addr, size)
	for i := lo; i < hi; i++ {
		r.pages[i].pending += int32(by)
	}
}

func (d *Device) touch(what string, addr mem.Addr, size mem.Bytes) error {
	if size <= 0 {
		return d.violate(refuse(what, codeInvalidValue, "size %d is not positive", size))
	}
	r, lo, hi := d.covering(addr, size)
	if r == nil || !r.allMapped(lo, hi) {
		return d.violate(refuse(what, codeIllegalAddress, "%#x + %v is not mapped", uint64(addr),
			size))
	}
	for i := lo; i < hi; i++ {
		if !r.pages[i].access {
			return d.violate(refuse(what, codeIllegalAddress, "%#x + %v is mapped without access",
				uint64(addr), size))
		}
	}
	return nil
}

// covering is pageRange for a range of any bytes: the pages it touches.
func (d *Device) covering(addr mem.Addr, size mem.Bytes) (*reservation, int, int) {
	start := mem.Bytes(addr) &^ (mem.HandleSize - 1)
	end := mem.RoundUp(mem.Bytes(addr)+size, mem.HandleSize)
	return d.pageRange(mem.Addr(start), end-start)
}
