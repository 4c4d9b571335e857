package devicetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

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
		if handles[i], err = s.d.Create(mem.HandleSize); err != nil {
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
	if err := s.d.Sync(); err != nil {
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
		return fmt.Errorf("the %v at %#x do not hold what was written: somebody else writes there",
			size, uint64(addr))
	}
	return nil
}
