package porttest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"stalloc/internal/mem"
)

// Random plays random plans with noise in them: requests left out, inserted, late and
// announced frees, pins, tapes replaced and given up anywhere in a step. Everything is
// compared after each step.
func Random(t *testing.T, seed uint64, steps int, open func() (Subject, mem.Addr)) {
	t.Helper()
	s := start(t, open)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	r := rand.New(rand.NewPCG(seed, 2))
	for range steps {
		if s.now == nil {
			s.serve(random(r, 1+r.IntN(40)))
		}
		s.step(r, r.Float64()*r.Float64()/2)
		s.pass(s.leftModel()...)
		s.check()
		switch r.IntN(6) {
		case 0:
			s.replace(random(r, 1+r.IntN(40)))
		case 1:
			s.freeLocked(func() { s.replaceLocked(random(r, 1+r.IntN(40)), nil) }, s.some(r)...)
		case 2:
			if !s.anyPinned() {
				s.giveUp(func() { s.freeLocked(nil, s.some(r)...) })
			}
		default:
			s.boundary(0)
		}
		s.pass(s.leftModel()...)
		s.check()
		s.dropEmpty()
	}
	s.unpin()
	s.end()
}

// leftModel is what the port says, checked to be pinned blocks by pass's Release.
func (s *suite) leftModel() []mem.Addr {
	left := s.left
	s.left = nil
	return left
}

func (s *suite) anyPinned() bool {
	for _, b := range s.live {
		if b.pinned {
			return true
		}
	}
	return false
}

// some picks live blocks at random, and takes them out of what the step may free.
func (s *suite) some(r *rand.Rand) (addrs []mem.Addr) {
	for _, addr := range s.sorted() {
		if r.IntN(3) == 0 {
			addrs = append(addrs, addr)
			if s.live[addr].pinned {
				s.left = append(s.left, addr)
			}
		}
	}
	return addrs
}

func (s *suite) sorted() []mem.Addr { return slices.Sorted(maps.Keys(s.live)) }

// release frees one block, or announces its free.
func (s *suite) release(r *rand.Rand, addr mem.Addr) {
	if s.live[addr].pinned {
		s.left = append(s.left, addr)
	}
	if r.IntN(4) == 0 {
		s.freeLocked(nil, addr)
	} else {
		s.free(addr)
	}
}

// unpin frees every pinned block.
func (s *suite) unpin() {
	for _, addr := range s.sorted() {
		if s.live[addr].pinned {
			s.left = append(s.left, addr)
			s.free(addr)
		}
	}
	s.pass(s.leftModel()...)
}

// step plays the served plan's order.
func (s *suite) step(r *rand.Rand, noise float64) {
	p := s.now.plan
	at := make([]mem.Addr, len(p.slots))
	odd := func() bool { return r.Float64() < noise }
	for _, e := range p.orders[0] {
		switch {
		case odd(): // left out, or late
		case e >= 0:
			at[e] = s.alloc(p.slots[e].Size - mem.Bytes(r.IntN(int(mem.Grain))))
		case s.live[at[^e]] != nil:
			s.release(r, at[^e])
		}
		if odd() {
			s.alloc(mem.Grain * mem.Bytes(1+r.IntN(12)))
		}
		if live := s.sorted(); odd() && len(live) > 0 {
			if addr := live[r.IntN(len(live))]; !s.live[addr].pooled && r.IntN(2) == 0 {
				s.pin(addr)
			} else {
				s.release(r, addr)
			}
		}
	}
}

// threads ask and free while tapes are replaced and given up under them. No block may
// overlap another that lives, and at the end nothing may live.
func (s *suite) threads() {
	var mu sync.Mutex
	held := make(map[mem.Addr]mem.Bytes)
	take := func(addr mem.Addr, n mem.Bytes) {
		mu.Lock()
		defer mu.Unlock()
		for at, m := range held {
			if at < addr+mem.Addr(n) && addr < at+mem.Addr(m) {
				s.Errorf("%v at %#x overlap the live block of %v at %#x", n, addr, m, at)
			}
		}
		held[addr] = n
	}
	s.serve(random(rand.New(rand.NewPCG(1, 2)), 30))
	var wg sync.WaitGroup
	stop := make(chan bool)
	other := make(chan mem.Addr, 64) // to be freed by another thread
	drop := func(addr mem.Addr) {
		mu.Lock()
		delete(held, addr)
		mu.Unlock()
		s.Free(addr)
	}
	for thread := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(thread), 3))
			for n := 0; n < 20_000 && !s.Failed(); n++ {
				asked := mem.Grain * mem.Bytes(1+r.IntN(12))
				if addr := s.Alloc(asked); addr != 0 {
					take(addr, mem.Round(asked))
					select {
					case other <- addr:
					default:
						drop(addr)
					}
				}
				select {
				case addr := <-other:
					drop(addr)
				default:
				}
			}
		})
	}
	go func() { wg.Wait(); close(stop) }()
	r := rand.New(rand.NewPCG(5, 6))
	for running := true; running; {
		select {
		case <-stop:
			running = false
		default:
		}
		if r.IntN(4) == 0 {
			s.replace(random(r, 30))
		} else {
			s.boundary(0)
		}
	}
	close(other)
	for addr := range other {
		drop(addr)
	}
	s.Look()
	s.Lock()
	s.Settle()
	s.Observed(nil) // threads may have filled it
	s.Unlock()
	s.check()
}
