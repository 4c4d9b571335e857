package devicetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"stalloc/actors/device"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Random makes the same random calls, good and bad, on all devices and compares
// every answer, error codes included, with what a naive model says and so with
// each other; bytes too, on devices that have contents. The devices must be
// fresh, of one capacity, and share the model's strictness: they refuse to
// unmap what is not mapped and to give access to a range with gaps or to part of a
// mapping. In the end everything is given back.
func Random(t *testing.T, seed uint64, steps int, devices ...device.Device) {
	t.Helper()
	r := &random{
		suites: make([]*suite, len(devices)),
		rand:   rand.New(rand.NewPCG(seed, 2)),
		fail: func(format string, args ...any) {
			t.Helper()
			t.Fatalf("seed %d: "+format, append([]any{seed}, args...)...)
		},
	}
	for i, d := range devices {
		r.suites[i] = &suite{T: t, d: d}
	}
	_, r.capacity, _ = devices[0].Memory()
	for r.step = range steps {
		r.one()
		r.memory()
	}
	r.giveBack()
}

type random struct {
	suites []*suite
	rand   *rand.Rand
	fail   func(string, ...any)
	step   int
	model
}

// call makes one call on every device and compares its error with the code the
// model expects, 0 for none.
func (r *random) call(want int, what string, do func(i int, d device.Device) error) {
	for i, s := range r.suites {
		err := do(i, s.d)
		got := 0
		var failure *driver.Error
		if errors.As(err, &failure) {
			got = failure.Code
		}
		if got != want || (err != nil) != (want != 0) {
			r.fail("step %d, device %d (%s): %s gave %v, want code %d", r.step, i, s.d.Name(), what,
				err, want)
		}
	}
}

func (r *random) one() {
	steps := []struct {
		weight int
		do     func()
	}{
		{2, r.reserve}, {1, r.unreserve}, {6, r.create}, {3, r.release}, {12, r.mapHandle},
		{6, r.access}, {5, r.unmap}, {2, r.record}, {4, r.done},
		{1, r.sync}, {10, r.bytes},
	}
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	n := r.rand.IntN(total)
	for _, s := range steps {
		if n -= s.weight; n < 0 {
			s.do()
			return
		}
	}
}

func (r *random) reserve() {
	pages := r.rand.IntN(8)
	size := mem.Bytes(pages) * page
	if r.rand.IntN(6) == 0 {
		size += mem.Bytes(r.rand.IntN(int(page)))
	}
	m := &reservation{addrs: make([]mem.Addr, len(r.suites)), pages: make([]mapping, pages)}
	want := code(size <= 0 || size%page != 0)
	r.call(want, fmt.Sprintf("Reserve(%d)", size), func(i int, d device.Device) (err error) {
		m.addrs[i], err = d.Reserve(size)
		return err
	})
	if want == 0 {
		r.reservations = append(r.reservations, m)
	}
}

func (r *random) unreserve() {
	at, m := pick(r.rand, r.reservations)
	if m == nil {
		return
	}
	size := mem.Bytes(len(m.pages)) * page
	if r.rand.IntN(4) == 0 {
		size -= page
	}
	want := code(size != mem.Bytes(len(m.pages))*page || m.mapped() > 0)
	r.call(want, fmt.Sprintf("Unreserve(%d pages)", size/page), func(i int, d device.Device) error {
		return d.Unreserve(m.addrs[i], size)
	})
	if want == 0 {
		r.reservations = remove(r.reservations, at)
	}
}

func (r *random) create() {
	pages := []int{1, 1, 1, 2, 3, 4, 64}[r.rand.IntN(7)]
	size := mem.Bytes(pages) * page
	if r.rand.IntN(8) == 0 {
		size = []mem.Bytes{0, -page, page / 2, size + 512}[r.rand.IntN(4)]
	}
	want := code(size <= 0 || size%page != 0)
	if want == 0 && r.used()+size > r.capacity {
		want = driver.CodeOutOfMemory
	}
	h := &handle{values: make([]driver.Handle, len(r.suites)), held: true,
		bytes: make([]*byte, pages)}
	r.call(want, fmt.Sprintf("Create(%d)", size), func(i int, d device.Device) (err error) {
		h.values[i], err = d.Create(size)
		return err
	})
	if want == 0 {
		r.handles = append(r.handles, h)
	}
}

func (r *random) release() {
	_, h := pick(r.rand, r.handles) // released ones too
	if h == nil {
		return
	}
	r.call(code(!h.held), "Release",
		func(i int, d device.Device) error { return d.Release(h.values[i]) })
	h.held = false
}

func (r *random) mapHandle() {
	_, m := pick(r.rand, r.reservations)
	_, h := pick(r.rand, r.handles)
	if m == nil || h == nil {
		return
	}
	n, skew := r.rand.IntN(len(m.pages)), mem.Addr(0)
	if r.rand.IntN(10) == 0 {
		skew = 512
	}
	good := skew == 0 && h.held && n+len(h.bytes) <= len(m.pages)
	for i := 0; good && i < len(h.bytes); i++ {
		good = m.pages[n+i].handle == nil
	}
	want := code(!good)
	r.call(want, fmt.Sprintf("Map(%d pages at page %d + %d)", len(h.bytes), n, skew),
		func(i int, d device.Device) error {
			return d.Map(at(m.addrs[i], n)+skew, h.values[i])
		})
	if want == 0 {
		for i := range h.bytes {
			m.pages[n+i] = mapping{handle: h, part: i}
		}
		h.maps++
	}
}

// some picks a range that starts in a reservation and may reach beyond it, or cut a
// mapping, which no device lets pass.
func (r *random) some() (m *reservation, first, count int, skew mem.Addr, want int) {
	_, m = pick(r.rand, r.reservations)
	if m == nil {
		return nil, 0, 0, 0, 0
	}
	first = r.rand.IntN(len(m.pages))
	count = r.rand.IntN(6)
	if p := m.pages[first]; p.handle != nil && r.rand.IntN(2) == 0 { // one whole mapping
		first, count = first-p.part, len(p.handle.bytes)
	}
	if r.rand.IntN(10) == 0 {
		skew = 4096
	}
	good := skew == 0 && count > 0 && first+count <= len(m.pages)
	for i := first; good && i < first+count; i++ {
		good = m.pages[i].handle != nil
	}
	if good {
		last := m.pages[first+count-1]
		good = m.pages[first].part == 0 && last.part == len(last.handle.bytes)-1
	}
	return m, first, count, skew, code(!good)
}

func (r *random) access() {
	m, first, count, skew, want := r.some()
	if m == nil {
		return
	}
	r.call(want, fmt.Sprintf("Access(%d + %d pages)", first, count),
		func(i int, d device.Device) error {
			return d.Access(at(m.addrs[i], first)+skew, mem.Bytes(count)*page)
		})
	for i := first; want == 0 && i < first+count; i++ {
		m.pages[i].access = true
	}
}

func (r *random) unmap() {
	m, first, count, skew, want := r.some()
	if m == nil {
		return
	}
	r.call(want, fmt.Sprintf("Unmap(%d + %d pages)", first, count),
		func(i int, d device.Device) error {
			return d.Unmap(at(m.addrs[i], first)+skew, mem.Bytes(count)*page)
		})
	for i := first; want == 0 && i < first+count; i++ {
		if m.pages[i].part == 0 {
			m.pages[i].handle.maps--
		}
		m.pages[i] = mapping{}
	}
}
