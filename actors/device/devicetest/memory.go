package devicetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"

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
	s.ok(s.d.Sync(0), "Sync")
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
		s.ok(s.d.Sync(stream), "Sync")
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

func (s *suite) plain() {
	before := s.free()
	var blocks []mem.Addr
	for _, size := range []mem.Bytes{1, 512, 513, mem.MiB, page, page + 1, 5 * page} {
		addr, err := s.d.Malloc(size)
		s.ok(err, "Malloc of %v", size)
		if addr == 0 || addr%mem.Addr(mem.Grain) != 0 {
			s.Errorf("Malloc of %v gave %#x, want a multiple of %v", size, uint64(addr), mem.Grain)
		}
		s.write(addr, byte(len(blocks)))
		s.write(addr+mem.Addr(size-1), byte(len(blocks)))
		blocks = append(blocks, addr)
	}
	if s.free() >= before {
		s.Error("plain blocks take no memory")
	}
	for i, addr := range blocks {
		s.read(addr, byte(i))
	}
	for _, size := range []mem.Bytes{0, -1} {
		_, err := s.d.Malloc(size)
		s.refused(err, invalidValue, "Malloc of "+size.String())
	}
	s.refused(s.d.Free(blocks[5]+512), invalidValue, "Free inside a block")
	s.refused(s.d.Free(12345), invalidValue, "Free of an address nobody gave")
	s.ok(s.d.Free(0), "Free of address 0")
	for _, addr := range blocks {
		s.ok(s.d.Free(addr), "Free")
	}
	s.refused(s.d.Free(blocks[6]), invalidValue, "second Free")
	if got := s.free(); got != before {
		s.Errorf("%v free after freeing everything, want %v", got, before)
	}
}

// full takes all memory in handles: the failure must be recognisable, and one
// handle given back must be enough to go on.
func (s *suite) full() {
	_, total, err := s.d.Memory()
	s.ok(err, "Memory")
	_, err = s.d.Malloc(2 * total)
	s.refused(err, driver.CodeOutOfMemory, "Malloc of twice the device")
	var handles []driver.Handle
	for {
		h, err := s.d.Create()
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
	_, err = s.d.Malloc(8 * page)
	s.refused(err, driver.CodeOutOfMemory, "Malloc on a full device")
	s.ok(s.d.Release(handles[0]), "Release")
	handles[0] = s.create()
	for _, h := range handles {
		s.ok(s.d.Release(h), "Release")
	}
}

// threads lets several threads map, use and unmap ranges of their own.
func (s *suite) threads() {
	before := s.free()
	var wg sync.WaitGroup
	failures := make(chan error, 4)
	for thread := range 4 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(thread), 1))
			for range 5 {
				if err := s.round(byte(thread), 1+random.IntN(3)); err != nil {
					failures <- fmt.Errorf("thread %d: %w", thread, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		s.Error(err)
	}
	if got := s.free(); !s.Failed() && got != before {
		s.Errorf("%v free afterwards, want %v", got, before)
	}
}

// round is one thread's use of a range, with its own pattern in it.
func (s *suite) round(value byte, pages int) error {
	size := mem.Bytes(pages) * page
	addr, err := s.d.Reserve(size)
	if err != nil {
		return err
	}
	handles := make([]driver.Handle, pages)
	for i := range handles {
		if handles[i], err = s.d.Create(); err != nil {
			return err
		}
		if err := s.d.Map(at(addr, i), handles[i]); err != nil {
			return err
		}
	}
	if err := s.d.Access(addr, size); err != nil {
		return err
	}
	if b, ok := s.d.(Bytes); ok {
		if err := pattern(b, addr, size, value); err != nil {
			return err
		}
	}
	f, err := s.d.Record(0)
	if err != nil {
		return err
	}
	if err := s.d.Sync(0); err != nil {
		return err
	}
	if done, err := s.d.Done(f); err != nil || !done {
		return fmt.Errorf("after Sync, Done = %t, %v", done, err)
	}
	if err := s.d.Unmap(addr, size); err != nil {
		return err
	}
	for _, h := range handles {
		if err := s.d.Release(h); err != nil {
			return err
		}
	}
	return s.d.Unreserve(addr, size)
}

// pattern fills the range, each 4 KiB with a value of its own, and reads it back.
func pattern(b Bytes, addr mem.Addr, size mem.Bytes, value byte) error {
	const piece = 4096
	var data []byte
	for i := range int(size / piece) {
		data = append(data, bytes.Repeat([]byte{value + byte(i)}, piece)...)
	}
	if err := b.Write(addr, data); err != nil {
		return err
	}
	got := make([]byte, size)
	if err := b.Read(got, addr); err != nil {
		return err
	}
	if !bytes.Equal(got, data) {
		return fmt.Errorf("the %v at %#x do not hold what was written: somebody else writes there", size, uint64(addr))
	}
	return nil
}
