package sim_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"stalloc/actors/device"
	"stalloc/actors/device/devicetest"
	"stalloc/cuda/sim"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

const page = mem.HandleSize

func TestConformance(t *testing.T) {
	for _, c := range []sim.Config{
		{Capacity: 128 * mem.MiB},
		{Capacity: 128 * mem.MiB, FenceDelay: 3},
	} {
		devicetest.Run(t, func() device.Device { return checked{t, sim.New(c)} })
	}
}

// checked recounts the device's state when it is closed.
type checked struct {
	*testing.T
	*sim.Device
}

func (c checked) Name() string { return c.Device.Name() }

func (c checked) Close() error {
	if err := c.Check(); err != nil {
		c.Error(err)
	}
	return c.Device.Close()
}

func TestRandomAgainstModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range uint64(20) {
		d := sim.New(sim.Config{Capacity: 48 * mem.MiB, FenceDelay: 2})
		devicetest.Random(t, seed+i, 2000, d)
		if err := errors.Join(d.Check(), d.Close()); err != nil {
			t.Fatalf("seed %d: %v", seed+i, err)
		}
	}
}

// ready is a device with pages mapped and accessible at addr.
func ready(t *testing.T, c sim.Config, pages int) (*sim.Device, mem.Addr) {
	t.Helper()
	d := sim.New(c)
	addr, err := d.Reserve(mem.Bytes(pages) * page)
	must(t, err)
	for i := range pages {
		h, err := d.Create(mem.HandleSize)
		must(t, err)
		must(t, d.Map(addr+mem.Addr(i)*mem.Addr(page), h))
	}
	must(t, d.Access(addr, mem.Bytes(pages)*page))
	return d, addr
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func refused(t *testing.T, err error, code int, text string) {
	t.Helper()
	var failure *driver.Error
	if !errors.As(err, &failure) || failure.Code != code || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want error %d with %q", err, code, text)
	}
}

// TestStricterThanDriver holds what the driver lets pass.
func TestStricterThanDriver(t *testing.T) {
	d, addr := ready(t, sim.Config{}, 3)
	second := addr + mem.Addr(page)
	must(t, d.Unmap(second, page))
	refused(t, d.Unmap(second, page), 1, "not wholly mapped")
	refused(t, d.Unmap(addr, 3*page), 1, "not wholly mapped")
	refused(t, d.Access(addr, 3*page), 1, "not wholly mapped")
	large, err := d.Create(3 * page)
	must(t, err)
	at, err := d.Reserve(3 * page)
	must(t, err)
	must(t, d.Map(at, large))
	refused(t, d.Access(at, page), 1, "cuts a mapping")
	refused(t, d.Access(at+mem.Addr(page), 2*page), 1, "cuts a mapping")
	refused(t, d.Unmap(at, 2*page), 1, "cuts a mapping")
	must(t, d.Access(at, 3*page))
	must(t, d.Use(0, at+2*mem.Addr(page), 1))
	refused(t, d.Unmap(at, 3*page), 700, "pending work uses")
	must(t, d.Check())
}

func TestPendingWork(t *testing.T) {
	d, addr := ready(t, sim.Config{Manual: true}, 4)
	last := addr + 3*mem.Addr(page)
	must(t, d.Use(1, addr+100, page)) // two pages
	must(t, d.Use(2, last, 1))
	early, err := d.Record(1)
	must(t, err)
	must(t, d.Use(1, addr, 1))

	refused(t, d.Unmap(addr, 4*page), 700, "pending work uses")
	refused(t, d.Unmap(addr+mem.Addr(page), page), 700, "pending work uses")
	must(t, d.Unmap(addr+2*mem.Addr(page), page))
	must(t, d.Check())

	if done, err := d.Done(early); done || err != nil {
		t.Fatalf("Done before Finish: %t, %v", done, err)
	}
	must(t, d.Sync())
	must(t, d.Unmap(last, page))
	d.Finish(1)
	if done, err := d.Done(early); !done || err != nil {
		t.Fatalf("Done after Finish: %t, %v", done, err)
	}
	must(t, d.Unmap(addr, 2*page))
	must(t, d.Check())
	if n := len(d.Violations()); n != 2 {
		t.Errorf("%d violations recorded, want 2", n)
	}
}

// TestFencePassesEarlierWork: a fence ends the work before it, not after it.
func TestFencePassesEarlierWork(t *testing.T) {
	d, addr := ready(t, sim.Config{FenceDelay: 2}, 2)
	must(t, d.Use(0, addr, 1))
	f, err := d.Record(0)
	must(t, err)
	must(t, d.Use(0, addr+mem.Addr(page), 1))
	for i, want := range []bool{false, false, true} {
		if done, err := d.Done(f); done != want || err != nil {
			t.Fatalf("question %d: %t, %v", i, done, err)
		}
	}
	must(t, d.Unmap(addr, page))
	refused(t, d.Unmap(addr+mem.Addr(page), page), 700, "pending work uses")
	must(t, d.Check())
}

func TestUseNeedsAccess(t *testing.T) {
	d, addr := ready(t, sim.Config{}, 2)
	must(t, d.Touch(addr, 2*page))
	must(t, d.Touch(addr+mem.Addr(page)-1, 2))
	refused(t, d.Touch(addr, 2*page+1), 700, "not mapped")
	refused(t, d.Use(0, 12345, 1), 700, "not mapped")
	refused(t, d.Touch(addr, 0), 1, "not positive")
	refused(t, d.Touch(addr, 1<<62+(1<<62-1)), 700, "not mapped")
	must(t, d.Unmap(addr, page))
	refused(t, d.Touch(addr, 1), 700, "not mapped")
	h, err := d.Create(mem.HandleSize)
	must(t, err)
	must(t, d.Map(addr, h))
	refused(t, d.Use(0, addr, 1), 700, "without access")

	must(t, d.Check())
	for range 100 {
		refused(t, d.Touch(0, 1), 700, "not mapped")
	}
	list := d.Violations()
	if got := list[len(list)-1].Error(); got != "and 42 more violations" {
		t.Errorf("the list of violations ends with %q", got)
	}
}

func TestCloseTellsLeaksAndViolations(t *testing.T) {
	d, _ := ready(t, sim.Config{Name: "toy"}, 2)
	_ = d.Touch(0, 1)
	err := d.Close()
	for _, want := range []string{"toy closed with 1 reservations and 2 handles not given back (4.00 MiB of memory)", "0x0 + 1 B is not mapped"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Close says %v, want %q in it", err, want)
		}
	}
	if _, err := d.Reserve(page); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("Reserve after Close: %v", err)
	}
}

// TestModelledTime compares sums with the measurements they come from.
func TestModelledTime(t *testing.T) {
	d := sim.New(sim.Config{})
	addr, err := d.Reserve(256 * page)
	must(t, err)
	for i := range 256 {
		h, err := d.Create(mem.HandleSize)
		must(t, err)
		must(t, d.Map(addr+mem.Addr(i)*mem.Addr(page), h))
	}
	for _, c := range []struct {
		what       string
		call       func() error
		from, upto time.Duration
	}{
		{"access to 256 handles in one call", func() error { return d.Access(addr, 256*page) },
			6800 * time.Microsecond, 7000 * time.Microsecond},
		{"access to one handle", func() error { return d.Access(addr, page) },
			23600 * time.Nanosecond, 23600 * time.Nanosecond},
		{"unmapping 256 handles", func() error { return d.Unmap(addr, 256*page) },
			4100 * time.Microsecond, 4300 * time.Microsecond},
	} {
		before := d.Time()
		must(t, c.call())
		if got := d.Time() - before; got < c.from || got > c.upto {
			t.Errorf("%s: modelled as %v, measured %v to %v", c.what, got, c.from, c.upto)
		}
	}
	large := mem.Bytes(512) * mem.MiB
	at, err := d.Reserve(2*large + page)
	must(t, err)
	var h driver.Handle
	create := func(size mem.Bytes) func() error {
		return func() (err error) { h, err = d.Create(size); return err }
	}
	mapAt := func(offset mem.Bytes) func() error {
		return func() error { return d.Map(at+mem.Addr(offset), h) }
	}
	for _, c := range []struct {
		what string
		call func() error
		want float64 // µs
	}{
		{"creating 512 MiB", create(large), 18},
		{"mapping them", mapAt(0), 1.1},
		{"mapping them again", mapAt(large + page), 1.1},
		{"creating 2 MiB", create(page), 9.3},
		{"mapping them", mapAt(large), 0.8},
		{"access to 2 MiB between the others",
			func() error { return d.Access(at+mem.Addr(large), page) }, 23.6},
		{"access to the three in one call", func() error { return d.Access(at, 2*large+page) },
			2*46 + 23.6 + 3*3.4},
		{"unmapping one", func() error { return d.Unmap(at, large) }, 24},
		{"unmapping two", func() error { return d.Unmap(at+mem.Addr(large), large+page) },
			24 + 16.5},
		{"releasing 2 MiB", func() error { return d.Release(h) }, 11},
		{"creating 4 GiB", create(4 * mem.GiB), 74},
		{"releasing 4 GiB", func() error { return d.Release(h) }, 1416},
	} {
		before := d.Time()
		must(t, c.call())
		if got := float64(d.Time()-before) / 1000; math.Abs(got-c.want) > 0.01 {
			t.Errorf("%s: modelled as %v µs, want %v", c.what, got, c.want)
		}
	}
	s := d.Stats()
	if s.Create != 256+3 || s.Map != 259 || s.Access != 4 || s.Reserve != 2 || s.Calls() != 529 {
		t.Errorf("counted %+v, %d calls", s, s.Calls())
	}
}

// BenchmarkArena builds and takes down an arena of 24 GiB.
func BenchmarkArena(b *testing.B) {
	const pages = 12288
	handles := make([]driver.Handle, pages)
	b.ReportAllocs()
	for b.Loop() {
		d := sim.New(sim.Config{})
		addr, _ := d.Reserve(pages * page)
		for i := range handles {
			handles[i], _ = d.Create(mem.HandleSize)
			_ = d.Map(addr+mem.Addr(i)*mem.Addr(page), handles[i])
		}
		if err := d.Access(addr, pages*page); err != nil {
			b.Fatal(err)
		}
		_ = d.Unmap(addr, pages*page)
		for _, h := range handles {
			_ = d.Release(h)
		}
	}
}

// TestBehind checks that a page names its handle wherever that is mapped, and for
// as long.
func TestBehind(t *testing.T) {
	d := sim.New(sim.Config{})
	at, err := d.Reserve(3 * mem.HandleSize)
	h, err2 := d.Create(mem.HandleSize)
	page := mem.Addr(mem.HandleSize)
	if err := errors.Join(err, err2, d.Map(at, h), d.Map(at+2*page, h), d.Release(h)); err != nil {
		t.Fatal(err)
	}
	for i, want := range []driver.Handle{h, 0, h, 0} {
		got, in, ok := d.Behind(at + mem.Addr(i)*page + page - 1)
		if got != want || ok != (want != 0) || ok && in != mem.Offset(page-1) {
			t.Errorf("page %d: byte %d of handle %d, %t; want %d", i, in, got, ok, want)
		}
	}
}

// TestBehindLargerHandle: each page of a mapping is its own part of the handle.
func TestBehindLargerHandle(t *testing.T) {
	d := sim.New(sim.Config{})
	at, err := d.Reserve(4 * page)
	must(t, err)
	h, err := d.Create(3 * page)
	must(t, err)
	must(t, d.Map(at+mem.Addr(page), h))
	for _, c := range []struct {
		offset mem.Bytes
		want   mem.Offset
	}{{page, 0}, {2*page - 1, mem.Offset(page - 1)}, {3*page + 7, mem.Offset(2*page + 7)}} {
		got, in, ok := d.Behind(at + mem.Addr(c.offset))
		if got != h || in != c.want || !ok {
			t.Errorf("%v from the start: byte %d of handle %d, %t; want byte %d of handle %d",
				c.offset, in, got, ok, c.want, h)
		}
	}
}
