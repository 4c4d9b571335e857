package devicetest

import (
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// The driver's codes.
const (
	invalidValue  = 1
	invalidHandle = 400
)

func (s *suite) identity() {
	if s.d.Name() == "" {
		s.Error("the device has no name")
	}
	s.free()
}

func (s *suite) reservations() {
	addr := s.reserve(8)
	if addr == 0 || addr%mem.Addr(page) != 0 {
		s.Errorf("Reserve gave %#x, want an address at a multiple of %v", uint64(addr), page)
	}
	big, err := s.d.Reserve(mem.TiB)
	s.ok(err, "Reserve of 1 TiB")
	if big < addr+8*mem.Addr(page) && addr < big+mem.Addr(mem.TiB) {
		s.Errorf("reservations at %#x and %#x overlap", uint64(addr), uint64(big))
	}
	for _, size := range []mem.Bytes{0, -page, 1, page / 2, page + 4096} {
		_, err := s.d.Reserve(size)
		s.refused(err, invalidValue, "Reserve of "+size.String())
	}
	_, err = s.d.Reserve(1 << 50)
	s.refused(err, driver.CodeOutOfMemory, "Reserve of 1024 TiB")

	for _, c := range []struct {
		what string
		addr mem.Addr
		size mem.Bytes
	}{
		{"the first half", addr, 4 * page},
		{"the second part", at(addr, 1), 7 * page},
		{"too much", addr, 16 * page},
		{"a skewed address", addr + 1, 8 * page},
		{"no bytes", addr, 0},
		{"address 0", 0, 8 * page},
	} {
		s.refused(s.d.Unreserve(c.addr, c.size), invalidValue, "Unreserve of "+c.what)
	}
	s.ok(s.d.Unreserve(addr, 8*page), "Unreserve")
	s.refused(s.d.Unreserve(addr, 8*page), invalidValue, "second Unreserve")
	s.ok(s.d.Unreserve(big, mem.TiB), "Unreserve of 1 TiB")
}

func (s *suite) handles() {
	before := s.free()
	a, b := s.create(), s.create()
	if a == 0 || b == 0 || a == b {
		s.Errorf("handles are %d and %d", a, b)
	}
	if got := before - s.free(); got != 2*page {
		s.Errorf("two handles took %v, want %v", got, 2*page)
	}
	for _, size := range []mem.Bytes{0, -page, 1, page / 2, page + 4096} {
		_, err := s.d.Create(size)
		s.refused(err, invalidValue, "Create of "+size.String())
	}
	_, total, err := s.d.Memory()
	s.ok(err, "Memory")
	_, err = s.d.Create(2 * mem.RoundUp(total, page))
	s.refused(err, driver.CodeOutOfMemory, "Create of twice the device")
	s.refused(s.d.Release(0), invalidValue, "Release of handle 0")
	s.ok(s.d.Release(a), "Release")
	s.refused(s.d.Release(a), invalidValue, "second Release")
	s.ok(s.d.Release(b), "Release")
	if got := s.free(); got != before {
		s.Errorf("%v free after releasing everything, want %v", got, before)
	}
}

func (s *suite) mapping() {
	addr, h, other := s.reserve(4), s.create(), s.create()
	for _, c := range []struct {
		what string
		addr mem.Addr
		h    driver.Handle
	}{
		{"a skewed address", addr + 4096, h},
		{"half a page off", addr + mem.Addr(page/2), h},
		{"after the reservation", at(addr, 4), h},
		{"before the reservation", at(addr, -1), h},
		{"address 0", 0, h},
		{"handle 0", addr, 0},
		{"an unknown handle", addr, 1<<60 + 12345},
	} {
		s.refused(s.d.Map(c.addr, c.h), invalidValue, "Map: "+c.what)
	}
	s.ok(s.d.Map(addr, h), "Map")
	s.refused(s.d.Map(addr, h), invalidValue, "Map of the same handle at the same place")
	s.refused(s.d.Map(addr, other), invalidValue, "Map over a mapping")
	s.refused(s.d.Unreserve(addr, 4*page), invalidValue, "Unreserve with something mapped")
	s.ok(s.d.Map(at(addr, 3), other), "Map at the end")
	s.ok(s.d.Unmap(addr, page), "Unmap")
	s.ok(s.d.Unmap(at(addr, 3), page), "Unmap at the end")
	s.ok(s.d.Release(other), "Release")
	s.refused(s.d.Map(addr, other), invalidValue, "Map of a released handle")
	s.ok(s.d.Release(h), "Release")
	s.ok(s.d.Unreserve(addr, 4*page), "Unreserve")
}

func (s *suite) access() {
	addr := s.reserve(4)
	s.refused(s.d.Access(addr, page), invalidValue, "Access before Map")
	s.ok(s.d.Unreserve(addr, 4*page), "Unreserve")
	addr, handles := s.mapped(3)
	for _, c := range []struct {
		what string
		addr mem.Addr
		size mem.Bytes
	}{
		{"half a page", addr, page / 2},
		{"a skewed address", addr + 4096, page},
		{"no bytes", addr, 0},
		{"a negative size", addr, -page},
		{"more than the reservation", addr, 4 * page},
		{"after the reservation", at(addr, 3), page},
		{"address 0", 0, page},
	} {
		s.refused(s.d.Access(c.addr, c.size), invalidValue, "Access: "+c.what)
	}
	s.ok(s.d.Access(addr, page), "Access")
	s.ok(s.d.Access(addr, page), "second Access")
	s.ok(s.d.Access(addr, 3*page), "Access to all")
	for i := range 3 {
		s.write(at(addr, i), byte(i+1))
	}
	for i := range 3 {
		s.read(at(addr, i), byte(i+1))
	}
	s.ok(s.d.Unmap(addr, page), "Unmap")
	s.refused(s.d.Access(addr, 3*page), invalidValue,
		"Access to a range whose first page is unmapped")
	s.ok(s.d.Map(addr, handles[0]), "Map")
	s.drop(addr, handles)
}

func (s *suite) unmapping() {
	addr, handles := s.mapped(3)
	for _, c := range []struct {
		what string
		addr mem.Addr
		size mem.Bytes
	}{
		{"half a page", addr, page / 2},
		{"a skewed address", addr + 4096, page},
		{"no bytes", addr, 0},
		{"a negative size", addr, -page},
		{"after the reservation", at(addr, 3), page},
		{"address 0", 0, page},
	} {
		s.refused(s.d.Unmap(c.addr, c.size), invalidValue, "Unmap: "+c.what)
	}
	s.ok(s.d.Unmap(at(addr, 1), page), "Unmap in the middle")
	s.ok(s.d.Map(at(addr, 1), handles[1]), "Map again")
	s.drop(addr, handles)
}
