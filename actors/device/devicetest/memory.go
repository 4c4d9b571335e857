package devicetest

import (
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

func (s *suite) aliasing() {
	addr, h := s.reserve(4), s.create()
	s.ok(s.d.Map(addr, h), "Map")
	s.ok(s.d.Map(at(addr, 2), h), "Map at a second address")
	s.ok(s.d.Access(addr, page), "Access")
	s.ok(s.d.Access(at(addr, 2), page), "Access")
	s.write(addr+100, 7)
	s.read(at(addr, 2)+100, 7)
	s.write(at(addr, 2)+100, 8)
	s.read(addr+100, 8)
	s.ok(s.d.Unmap(addr, page), "Unmap of the first address")
	s.read(at(addr, 2)+100, 8)
	s.write(at(addr, 2)+100, 9)
	s.read(at(addr, 2)+100, 9)
	s.ok(s.d.Unmap(at(addr, 2), page), "Unmap of the second address")
	s.ok(s.d.Release(h), "Release")
	s.ok(s.d.Unreserve(addr, 4*page), "Unreserve")
}

// releasedWhileMapped: the memory of a handle lives as long as its last
// mapping.
func (s *suite) releasedWhileMapped() {
	before := s.free()
	addr, h := s.reserve(2), s.create()
	s.ok(s.d.Map(addr, h), "Map")
	s.ok(s.d.Map(at(addr, 1), h), "Map at a second address")
	s.ok(s.d.Access(addr, 2*page), "Access")
	s.write(addr, 5)
	s.ok(s.d.Release(h), "Release")
	s.refused(s.d.Release(h), invalidValue, "second Release")
	s.read(addr, 5)
	s.ok(s.d.Unmap(addr, page), "Unmap")
	s.read(at(addr, 1), 5)
	if got := before - s.free(); got != page {
		s.Errorf("a released handle that is still mapped takes %v, want %v", got, page)
	}
	s.ok(s.d.Unmap(at(addr, 1), page), "Unmap of the last mapping")
	if got := s.free(); got != before {
		s.Errorf("%v free after the last Unmap, want %v", got, before)
	}
	s.ok(s.d.Unreserve(addr, 2*page), "Unreserve")
}

// contentsMove stitches the handles of one range, in another order, into a
// second: the contents follow the handle, not the address.
func (s *suite) contentsMove() {
	const n = 4
	addr, handles := s.mapped(n)
	s.ok(s.d.Access(addr, n*page), "Access")
	for i := range n {
		s.write(at(addr, i), byte(10+i))
	}
	s.ok(s.d.Sync(), "Sync")
	s.ok(s.d.Unmap(addr, n*page), "Unmap")
	second := s.reserve(n)
	for i := range n {
		s.ok(s.d.Map(at(second, n-1-i), handles[i]), "Map")
	}
	s.ok(s.d.Access(second, n*page), "Access")
	for i := range n {
		s.read(at(second, n-1-i), byte(10+i))
	}
	s.ok(s.d.Unreserve(addr, n*page), "Unreserve")
	s.drop(second, handles)
}

func (s *suite) fences() {
	streams := []mem.StreamID{0}
	if maker, ok := s.d.(Streams); ok {
		made, err := maker.NewStream()
		s.ok(err, "NewStream")
		streams = append(streams, made)
		defer func() { s.ok(maker.DropStream(made), "DropStream") }()
	}
	for _, stream := range streams {
		first, err := s.d.Record(stream)
		s.ok(err, "Record")
		second, err := s.d.Record(stream)
		s.ok(err, "Record")
		if first == 0 || second == 0 || first == second {
			s.Errorf("fences are %d and %d", first, second)
		}
		s.passes(second)
		s.passes(first)
		_, err = s.d.Done(second)
		s.refused(err, invalidHandle, "Done of a fence that is gone")

		third, err := s.d.Record(stream)
		s.ok(err, "Record")
		s.ok(s.d.Sync(), "Sync")
		done, err := s.d.Done(third)
		s.ok(err, "Done")
		if !done {
			s.Error("a fence has not passed after Sync of its stream")
		}
	}
	_, err := s.d.Done(1 << 60)
	s.refused(err, invalidHandle, "Done of an unknown fence")
	_, err = s.d.Record(0) // Close takes care of what is pending
	s.ok(err, "Record")
}

// full takes all memory in handles: the failure must be recognisable, and one
// handle given back must be enough to go on.
func (s *suite) full() {
	_, total, err := s.d.Memory()
	s.ok(err, "Memory")
	var handles []driver.Handle
	for {
		h, err := s.d.Create(mem.HandleSize)
		if err != nil {
			s.refused(err, driver.CodeOutOfMemory, "Create on a full device")
			break
		}
		handles = append(handles, h)
		if mem.Bytes(len(handles))*page > total {
			s.Fatalf("%d handles created on a device of %v", len(handles), total)
		}
	}
	// A real driver keeps a little for itself: 2.19 MiB were left on an H100.
	if free := s.free(); free >= 8*page {
		s.Errorf("Create failed with %v free", free)
	}
	s.ok(s.d.Release(handles[0]), "Release")
	handles[0] = s.create()
	for _, h := range handles {
		s.ok(s.d.Release(h), "Release")
	}
}
