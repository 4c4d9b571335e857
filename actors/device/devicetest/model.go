package devicetest

import (
	"math/rand/v2"

	"stalloc/actors/device"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// model is what the devices should hold, as plainly as it can be written.
// Values are kept per device, since every device chooses its own.
type model struct {
	capacity     mem.Bytes
	reservations []*reservation
	handles      []*handle // all there ever were
	fences       []*fence
}

type reservation struct {
	addrs []mem.Addr
	pages []mapping
}

// mapping is one page of a reservation.
type mapping struct {
	handle *handle
	part   int // which of the handle's pages it is
	access bool
}

type handle struct {
	values []driver.Handle
	held   bool
	maps   int
	bytes  []*byte // by page the first one, if it was written
}

type fence struct {
	values []driver.Fence
	gone   bool
}

func (m *reservation) mapped() (n int) {
	for _, p := range m.pages {
		if p.handle != nil {
			n++
		}
	}
	return n
}

func (h *handle) size() mem.Bytes { return mem.Bytes(len(h.bytes)) * page }

func (m *model) used() (bytes mem.Bytes) {
	for _, h := range m.handles {
		if h.held || h.maps > 0 {
			bytes += h.size()
		}
	}
	return bytes
}

func code(bad bool) int {
	if bad {
		return invalidValue
	}
	return 0
}

func pick[T any](r *rand.Rand, list []*T) (int, *T) {
	if len(list) == 0 {
		return 0, nil
	}
	i := r.IntN(len(list))
	return i, list[i]
}

func remove[T any](list []*T, i int) []*T {
	list[i] = list[len(list)-1]
	return list[:len(list)-1]
}

func (r *random) record() {
	f := &fence{values: make([]driver.Fence, len(r.suites))}
	r.call(0, "Record", func(i int, d device.Device) (err error) {
		f.values[i], err = d.Record(0)
		return err
	})
	r.fences = append(r.fences, f)
}

func (r *random) done() {
	_, f := pick(r.rand, r.fences)
	if f == nil {
		return
	}
	want := 0
	if f.gone {
		want = invalidHandle
	}
	answers := make([]bool, len(r.suites))
	r.call(want, "Done", func(i int, d device.Device) (err error) {
		answers[i], err = d.Done(f.values[i])
		return err
	})
	for i := range answers {
		if answers[i] != answers[0] {
			r.fail("step %d: Done gave %v", r.step, answers)
		}
	}
	f.gone = f.gone || answers[0]
}

func (r *random) sync() {
	r.call(0, "Sync", func(_ int, d device.Device) error { return d.Sync() })
}

// bytes writes or reads the first byte of an accessible page: what is written
// at one address of a handle must be seen at all others.
func (r *random) bytes() {
	_, m := pick(r.rand, r.reservations)
	if m == nil {
		return
	}
	n := r.rand.IntN(len(m.pages))
	h := m.pages[n].handle
	if h == nil || !m.pages[n].access {
		return
	}
	known := &h.bytes[m.pages[n].part]
	write := *known == nil || r.rand.IntN(2) == 0
	if write {
		value := byte(r.rand.Uint32())
		*known = &value
	}
	for i, s := range r.suites {
		if write {
			s.write(at(m.addrs[i], n), **known)
		} else {
			s.read(at(m.addrs[i], n), **known)
		}
		if s.Failed() {
			r.fail("step %d, device %d: wrong byte in page %d", r.step, i, n)
		}
	}
}

func (r *random) memory() {
	for i, s := range r.suites {
		if got := r.capacity - s.free(); got != r.used() {
			r.fail("step %d, device %d: %v in use, want %v", r.step, i, got, r.used())
		}
	}
}

// giveBack leaves nothing, so that Close finds no leak.
func (r *random) giveBack() {
	for _, m := range r.reservations {
		for n, p := range m.pages {
			if p.handle != nil && p.part == 0 {
				r.call(0, "Unmap", func(i int, d device.Device) error {
					return d.Unmap(at(m.addrs[i], n), p.handle.size())
				})
			}
		}
		r.call(0, "Unreserve", func(i int, d device.Device) error {
			return d.Unreserve(m.addrs[i], mem.Bytes(len(m.pages))*page)
		})
	}
	for _, h := range r.handles {
		if h.held {
			r.call(0, "Release", func(i int, d device.Device) error { return d.Release(h.values[i]) })
		}
	}
}
