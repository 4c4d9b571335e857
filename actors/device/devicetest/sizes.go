package devicetest

import (
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// larger: a handle of several pages takes its memory at once, is mapped whole at any
// page, and is unmapped whole.
func (s *suite) larger() {
	const n = 4
	before := s.free()
	addr, h, small := s.reserve(2*n+1), s.createOf(n), s.create()
	if got := before - s.free(); got != (n+1)*page {
		s.Errorf("handles of %d pages and of one took %v, want %v", n, got, (n+1)*page)
	}
	s.ok(s.d.Map(at(addr, n), small), "Map")
	for _, c := range []struct {
		what string
		page int
	}{
		{"its last page over a mapping", 1},
		{"its first page over a mapping", n},
		{"its end after the reservation", n + 2},
		{"its beginning before the reservation", -1},
	} {
		s.refused(s.d.Map(at(addr, c.page), h), invalidValue, "Map of a larger handle: "+c.what)
	}
	s.ok(s.d.Map(addr, h), "Map before a mapping")
	s.ok(s.d.Map(at(addr, n+1), h), "Map after it, at no multiple of its size")
	for i := range n {
		s.refused(s.d.Map(at(addr, i), small), invalidValue, "Map over part of a larger mapping")
	}
	s.ok(s.d.Access(addr, (2*n+1)*page), "Access to all")
	for i := range n {
		s.write(at(addr, i)+100, byte(20+i))
		s.read(at(addr, n+1+i)+100, byte(20+i))
	}
	for _, c := range []struct {
		what        string
		page, pages int
	}{
		{"its first page", 0, 1},
		{"a page inside it", 1, 1},
		{"all but its first page", 1, n - 1},
		{"another and part of it", n, 2},
		{"part of it and another", 1, n},
	} {
		s.refused(s.d.Unmap(at(addr, c.page), mem.Bytes(c.pages)*page), invalidValue,
			"Unmap of a larger handle: "+c.what)
	}
	s.read(at(addr, n-1)+100, byte(20+n-1))
	s.ok(s.d.Unmap(addr, n*page), "Unmap of the first mapping")
	s.ok(s.d.Release(h), "Release")
	s.read(at(addr, n+1)+100, 20)
	if got := before - s.free(); got != (n+1)*page {
		s.Errorf("a released handle of %d pages that is still mapped: %v in use, want %v", n, got,
			(n+1)*page)
	}
	s.ok(s.d.Unmap(at(addr, n), (n+1)*page), "Unmap of two mappings")
	s.ok(s.d.Release(small), "Release")
	s.ok(s.d.Unreserve(addr, (2*n+1)*page), "Unreserve")
	if got := s.free(); got != before {
		s.Errorf("%v free after giving everything back, want %v", got, before)
	}
}

// mixed stitches handles of several sizes, in two orders, and finds each one's bytes.
func (s *suite) mixed() {
	sizes, total := []int{1, 4, 2, 1, 3}, 11
	addr, second := s.reserve(total), s.reserve(total)
	handles := make([]driver.Handle, len(sizes))
	ahead, back := addr, at(second, total)
	for i, n := range sizes {
		handles[i] = s.createOf(n)
		back = at(back, -n)
		s.ok(s.d.Map(ahead, handles[i]), "Map")
		s.ok(s.d.Map(back, handles[i]), "Map in the other order")
		ahead = at(ahead, n)
	}
	size := mem.Bytes(total) * page
	s.ok(s.d.Access(addr, size), "Access")
	s.ok(s.d.Access(second, size), "Access")
	for i := range total {
		s.write(at(addr, i), byte(i))
	}
	ahead, back = addr, at(second, total)
	for _, n := range sizes {
		back = at(back, -n)
		for i := range n {
			s.read(at(back, i), byte((ahead-addr)/mem.Addr(page))+byte(i))
		}
		ahead = at(ahead, n)
	}
	s.ok(s.d.Unmap(at(addr, 1), 6*page), "Unmap of the second and third")
	s.ok(s.d.Map(at(addr, 1), handles[4]), "Map of another size in their place")
	s.ok(s.d.Access(addr, 4*page), "Access")
	s.write(at(addr, 3), 99)
	s.read(at(second, 2), 99)
	s.ok(s.d.Unmap(addr, 4*page), "Unmap")
	s.ok(s.d.Unmap(at(addr, 7), 4*page), "Unmap")
	s.ok(s.d.Unmap(second, size), "Unmap")
	for _, h := range handles {
		s.ok(s.d.Release(h), "Release")
	}
	s.ok(s.d.Unreserve(addr, size), "Unreserve")
	s.ok(s.d.Unreserve(second, size), "Unreserve")
}
