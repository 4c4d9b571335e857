package main

import (
	"sync"

	"stalloc/internal/mem"
	"stalloc/stream"
)

// slacks remembers by how much less than its rounded size each live block of
// the pool was asked for: the engine knows only rounded sizes, C's statistics
// count both. Most blocks of a training step are multiples of mem.Grain and
// need no entry.
type slacks struct {
	mu   sync.Mutex
	byAt map[mem.Addr]mem.Bytes
}

func (s *slacks) put(at mem.Addr, asked mem.Bytes) {
	slack := mem.Round(asked) - asked
	s.mu.Lock()
	defer s.mu.Unlock()
	if slack == 0 {
		delete(s.byAt, at) // of a block that was the pool's for a while
		return
	}
	if s.byAt == nil {
		s.byAt = make(map[mem.Addr]mem.Bytes)
	}
	s.byAt[at] = slack
}

// putAll notes the live blocks of a tape that is served no more: they may become
// the pool's.
func (s *slacks) putAll(t *stream.Tape) {
	for _, from := range t.Leave() {
		s.put(mem.Addr(t.State.Base)+mem.Addr(from.Slot.Offset), mem.Bytes(from.Asked))
	}
}

// take forgets a block that is about to be freed.
func (s *slacks) take(at mem.Addr) mem.Bytes {
	s.mu.Lock()
	defer s.mu.Unlock()
	slack := s.byAt[at]
	delete(s.byAt, at)
	return slack
}
