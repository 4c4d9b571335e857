package porttest

import (
	"slices"

	"stalloc/actors"
	"stalloc/internal/mem"
)

// many is more than any list of fixed length that a port may keep announced frees in.
const many = 1000

func (s *suite) served() {
	p := row(4, mem.KiB)
	s.Lock()
	t := s.build(p, nil)
	s.Unlock()
	if addr := s.Alloc(mem.KiB); addr != 0 {
		s.Fatalf("a tape that is built and not served gave %#x", addr)
	}
	if t.State.Base != uint64(t.base) {
		s.Errorf("the tape's arena is at %#x, want %#x", t.State.Base, t.base)
	}
	s.Lock()
	s.Serve(t.Tape, nil)
	s.now = t
	s.Unlock()
	addrs := s.all()
	s.check()
	if addr := s.Alloc(100 * mem.MiB); addr != 0 {
		s.Errorf("a request that no plan knows got %#x", addr)
	}
	s.free(addrs...)
	s.check()
	s.boundary(0)
	s.free(s.all()...)
	s.check()
}

// boundary ends a step; the tape goes on with an order.
func (s *suite) boundary(order int) {
	s.Lock()
	defer s.Unlock()
	s.Settle()
	s.Play(s.now.Tape, order)
}

func (s *suite) orders() {
	p := row(4, mem.KiB)
	backwards := []int32{3, 2, 1, 0, ^3, ^2, ^1, ^0}
	p.orders = append(p.orders, backwards)
	for i := range p.slots {
		p.slots[i].Size = mem.Grain * mem.Bytes(1+i%2)
	}
	s.serve(p)
	s.free(s.all()...)
	s.boundary(1)
	var addrs []mem.Addr
	for _, e := range backwards[:4] {
		slot := p.slots[e]
		addr := s.alloc(slot.Size)
		if want := s.now.base + mem.Addr(slot.Offset); addr != want {
			s.Fatalf("slot %d was served at %#x in the second order, want %#x", e, addr, want)
		}
		addrs = append(addrs, addr)
	}
	s.check()
	s.free(addrs...)
	s.boundary(0)
	s.free(s.all()...)
	s.check()
}

// observed: in their order, each once, with what was asked for rounded.
func (s *suite) observed() {
	s.serve(row(3, mem.KiB))
	a, b := s.alloc(mem.KiB-100), s.alloc(mem.KiB)
	s.free(a, b)
	want := []actors.Event{{Addr: a, Size: mem.KiB, Kind: actors.EventHit}, {Addr: b, Size: mem.KiB, Kind: actors.EventHit},
		{Addr: a, Kind: actors.EventFree}, {Addr: b, Kind: actors.EventFree}}
	s.Lock()
	got, lost := s.Observed([]actors.Event{{Addr: 1}})
	again, _ := s.Observed(nil)
	s.Unlock()
	for i := range got {
		if got[i].Kind == actors.EventFree {
			got[i].Size = 0
		}
	}
	if lost || len(got) == 0 || got[0].Addr != 1 || !slices.Equal(got[1:], want) {
		s.Errorf("observed %+v behind what there was (lost %t), want %+v", got, lost, want)
	}
	if len(again) > 0 {
		s.Errorf("observed again: %+v", again)
	}
	s.events = nil
}

// overflow: all events come, or the port says that some did not, once.
func (s *suite) overflow() {
	s.serve(row(1, mem.KiB))
	const pairs = 40_000
	for range pairs {
		s.free(s.all()...)
		s.boundary(0)
	}
	s.Lock()
	got, lost := s.Observed(nil)
	s.Unlock()
	if all := len(got) == 2*pairs; all == lost {
		s.Errorf("%d of %d events were observed, and the port says that some were lost: %t", len(got), 2*pairs, lost)
	}
	s.events = nil
	s.free(s.all()...)
	s.check() // no word of a loss any more
}

// announced: whoever takes the lock next does what was announced before it serves
// anything, and the load is right as soon as somebody asks.
func (s *suite) announced() {
	s.serve(row(many, mem.Grain))
	for range 3 {
		addrs := s.all()
		s.freeLocked(nil, addrs...)
		s.check()
		s.boundary(0)
	}
	// Announced and at once asked for again: the place must be free by then.
	addrs := s.all()
	s.freeLocked(func() { s.Settle(); s.Play(s.now.Tape, 0) }, addrs[:1]...)
	s.free(addrs[1:]...)
	s.check()
	s.boundary(0)
	s.free(s.all()...)
	s.check()
}

// announcedTwice: a block that is freed twice is freed once.
func (s *suite) announcedTwice() {
	s.serve(row(2, mem.KiB))
	addrs := s.all()
	s.freeLocked(nil, addrs[0])
	s.check()
	s.Free(addrs[0])
	if freed, unknown := s.Pooled(); len(freed) > 0 || unknown != 1 {
		s.Errorf("the second free reached the pool (%x), and %d frees were of no block", freed, unknown)
	}
	s.Lock() // it may have been observed: nobody could know better then
	s.Observed(nil)
	s.Unlock()
	if got := s.Load() - s.before; got != mem.KiB {
		s.Errorf("one block of 1 KiB lives, the load is %v", got)
	}
}

// replaced: the blocks go over to the new tape, and so do frees that were announced
// before or while that happens.
func (s *suite) replaced() {
	s.serve(row(many, mem.Grain))
	addrs := s.all()
	third := len(addrs) / 3
	s.free(addrs[:third/2]...)
	s.freeLocked(nil, addrs[third/2:third]...)
	s.freeLocked(func() { s.replaceLocked(row(many/2, mem.KiB), nil) }, addrs[third:2*third]...)
	s.check()
	s.freeLocked(nil, addrs[2*third:2*third+10]...)
	s.free(addrs[2*third+10:]...)
	s.check()
	s.boundary(0)
	s.free(s.all()...)
	s.check()
}

// replacedUnderFrees: frees that are announced when the new tape has adopted the blocks
// already, which takes long for a large plan.
func (s *suite) replacedUnderFrees() {
	s.serve(row(many, mem.Grain))
	addrs := s.all()
	var wait func()
	s.Lock()
	s.replaceLocked(row(3, mem.KiB), func() { wait = s.beside(addrs...) })
	s.Unlock()
	wait()
	s.check()
}

// heirs: blocks and announced frees through many tapes over one arena, of which those
// before may be gone for good by then.
func (s *suite) heirs() {
	s.serve(row(many, mem.Grain))
	addrs := s.all()
	for i := range 300 {
		s.freeLocked(func() { s.replaceLocked(row(1+i%7, mem.KiB), nil) }, addrs[3*i:3*i+3]...)
		if i%50 == 0 {
			s.check()
		}
	}
	s.check()
}
