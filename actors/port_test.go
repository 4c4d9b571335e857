package actors_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"stalloc/actors"
	"stalloc/actors/porttest"
	"stalloc/internal/mem"
	"stalloc/stream"
)

// goSubject is a GoPort and what Local does with it, without the actors behind. It keeps
// the tapes that frees find by itself, as Device does.
type goSubject struct {
	*actors.GoPort
	host *actors.GoHost

	mu      sync.Mutex
	arenas  []goArena
	served  *stream.Tape
	pool    map[mem.Addr]mem.Bytes // taken over
	pooled  []mem.Addr
	unknown int
	left    []mem.Addr
}

type goArena struct {
	tape *stream.Tape
	size mem.Bytes
}

func newGoSubject() (porttest.Subject, mem.Addr) {
	host := actors.NewGoHost()
	return &goSubject{GoPort: host.Port(7), host: host, pool: make(map[mem.Addr]mem.Bytes)}, 1 << 42
}

func (s *goSubject) Build(l *stream.Layout, base mem.Addr, size mem.Bytes) *stream.Tape {
	t := s.GoPort.Build(l, base, size)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arenas = append(s.arenas, goArena{t, size})
	return t
}

func (s *goSubject) forget(t *stream.Tape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arenas = slices.DeleteFunc(s.arenas, func(a goArena) bool { return a.tape == t })
}

func (s *goSubject) Serve(t, instead *stream.Tape) {
	s.GoPort.Serve(t, instead)
	s.served = t
	if instead != nil {
		s.forget(instead)
	}
}

func (s *goSubject) Drop(t *stream.Tape) {
	s.GoPort.Drop(t)
	s.forget(t)
}

func (s *goSubject) Alloc(asked mem.Bytes) mem.Addr {
	s.Lock()
	defer s.Unlock()
	if s.served == nil {
		return 0
	}
	got := s.served.Alloc(asked)
	if got.Slot == stream.None {
		return 0
	}
	s.HandOut(got.Addr, asked)
	return got.Addr
}

func (s *goSubject) Free(addr mem.Addr) {
	s.Lock()
	defer s.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.arenas {
		if addr-mem.Addr(a.tape.State.Base) >= mem.Addr(a.size) {
			continue
		}
		if f := a.tape.Free(addr); f.Slot != stream.None {
			s.Freed(addr, f.Asked)
			if f.Pinned {
				s.left = append(s.left, addr)
			}
			return
		}
	}
	if asked, found := s.pool[addr]; found {
		delete(s.pool, addr)
		s.pooled = append(s.pooled, addr)
		s.Freed(addr, asked)
		return
	}
	s.unknown++
}

func (s *goSubject) Announces() bool { return false }

func (s *goSubject) Look() {}

func (s *goSubject) Takes(addr mem.Addr, asked mem.Bytes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pool[addr] = asked
}

func (s *goSubject) Pooled() (freed []mem.Addr, unknown int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	freed, unknown = s.pooled, s.unknown
	s.pooled, s.unknown = nil, 0
	return freed, unknown
}

func (s *goSubject) Left() (left []mem.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left, s.left = s.left, nil
	return left
}

func (s *goSubject) Load() mem.Bytes { return s.host.Load() }

func TestPortInGo(t *testing.T) { porttest.Run(t, newGoSubject) }

func TestPortInGoAtRandom(t *testing.T) {
	for range 20 {
		porttest.Random(t, rand.Uint64(), 60, newGoSubject)
	}
}
