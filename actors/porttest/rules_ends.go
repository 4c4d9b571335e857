package porttest

import (
	"slices"

	"stalloc/internal/mem"
)

// givenUp: blocks that the pool has taken over are freed there, in the same way.
func (s *suite) givenUp() {
	s.serve(row(many, mem.Grain))
	addrs := s.all()
	s.free(addrs[:10]...)
	s.giveUp(nil)
	if addr := s.Alloc(mem.Grain); addr != 0 {
		s.Errorf("no tape is served, yet a request got %#x", addr)
	}
	s.check()
	s.free(addrs[10:20]...)
	s.freeLocked(nil, addrs[20:]...)
	freed, unknown := s.pooled()
	if slices.Sort(freed); !slices.Equal(freed, addrs[10:]) || unknown > 0 {
		s.Errorf("%d frees reached the pool and %d were of no block, want %d and none", len(freed), unknown, len(addrs)-10)
	}
}

// pooled compares and returns what reached the pool.
func (s *suite) pooled() (freed []mem.Addr, unknown int) {
	s.Look()
	s.Lock()
	s.Settle()
	s.Unlock()
	s.Look()
	return s.Pooled()
}

// givenUpUnderFrees: frees that are announced after the tape is given up and before the
// pool takes its blocks over. Each must end a life, on the tape or in the pool.
func (s *suite) givenUpUnderFrees() {
	s.serve(row(many, mem.Grain))
	addrs := s.all()
	s.giveUp(func() { s.freeLocked(nil, addrs...) })
	s.pooled()
	s.check()
	s.dropEmpty()
}

// dropped: the arena's addresses come back as another's.
func (s *suite) dropped() {
	for range 5 {
		s.base = 1 << 44
		s.serve(row(8, mem.KiB))
		addrs := s.all()
		s.free(addrs...)
		s.check()
		s.giveUp(nil)
		s.dropEmpty()
		if len(s.tapes) > 0 {
			s.Fatal("an empty tape was not dropped")
		}
		s.Free(addrs[0])
		if freed, unknown := s.Pooled(); len(freed) > 0 || unknown != 1 {
			s.Fatalf("a free in an arena that was dropped reached the pool (%x), %d were of no block", freed, unknown)
		}
		s.Lock()
		s.Observed(nil)
		s.Unlock()
	}
}

// pin marks a block as used by another stream, as an arena does.
func (s *suite) pin(addr mem.Addr) {
	s.Lock()
	defer s.Unlock()
	b := s.live[addr]
	if found := s.now.Pin(addr); !found || b == nil {
		s.Fatalf("the block at %#x cannot be pinned (on the tape: %t)", addr, found)
	}
	if !b.pinned {
		s.Pinned(s.now.Tape, 1)
	}
	b.pinned = true
}

// pass ends the lives of pinned blocks that were freed: their fences have passed.
func (s *suite) pass(want ...mem.Addr) {
	s.Helper()
	left := s.Left()
	slices.Sort(left)
	if slices.Sort(want); !slices.Equal(left, want) {
		s.Fatalf("left to their fences are %x, want %x", left, want)
	}
	s.Lock()
	for _, addr := range left {
		if !s.now.Release(addr) {
			s.Errorf("the pinned block at %#x did not live until its fence passed", addr)
		}
		s.Pinned(s.now.Tape, -1)
	}
	s.Unlock()
}

func (s *suite) pins() {
	s.serve(row(8, mem.KiB))
	addrs := s.all()
	s.pin(addrs[2])
	s.pin(addrs[3])
	s.pin(addrs[3])
	s.free(addrs[:3]...)
	s.boundary(0)
	s.pass(addrs[2])
	s.check()
	s.replace(row(3, mem.Grain)) // the pin goes over to the new tape
	s.free(addrs[3:]...)
	s.pass(addrs[3])
	s.check()
}

// pinsWait: a free of a pinned block that meets the lock is no announced free: it ends
// with the block left to its fences.
func (s *suite) pinsWait() {
	s.serve(row(8, mem.KiB))
	addrs := s.all()
	s.pin(addrs[1])
	s.pin(addrs[5])
	s.freeLocked(func() { s.replaceLocked(row(4, mem.Grain), nil) }, addrs[:4]...)
	s.pass(addrs[1])
	s.check()
	s.freeLocked(nil, addrs[4:]...)
	s.pass(addrs[5])
	s.check()
}
