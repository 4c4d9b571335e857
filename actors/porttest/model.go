package porttest

import (
	"slices"
	"testing"
	"time"

	"stalloc/actors"
	"stalloc/internal/mem"
	"stalloc/stream"
)

// suite is one test's port and what the model knows of it.
type suite struct {
	*testing.T
	Subject
	base   mem.Addr // of the next arena
	before mem.Bytes

	tapes  []*tape // built and not dropped; the served one too
	now    *tape   // served, nil: none
	live   map[mem.Addr]*block
	events []actors.Event
	left   []mem.Addr // pinned blocks that were freed
}

// tape is a tape, its arena and the plan that it was laid from.
type tape struct {
	*stream.Tape
	plan plan
	base mem.Addr
	size mem.Bytes
}

type block struct {
	asked  mem.Bytes
	pooled bool // the pool has taken it over
	pinned bool
}

// build makes a tape of a plan over an arena of its own, or over that of another tape,
// whose blocks it adopts; the port is locked then.
func (s *suite) build(p plan, over *tape) *tape {
	s.Helper()
	t := &tape{plan: p, base: s.base, size: mem.RoundUp(p.span+mem.Grain, mem.HandleSize)}
	var live []stream.Adopted
	slots := p.slots
	if over != nil {
		t.base, t.size = over.base, max(over.size, t.size)
		live = over.Leave()
		slots = slices.Clone(slots)
		for _, from := range live {
			slots = append(slots, from.Slot)
		}
	} else {
		s.base += mem.Addr(mem.GiB)
	}
	layout, err := stream.Lay(slots, p.orders...)
	if err != nil {
		s.Fatal(err)
	}
	t.Tape = s.Build(layout, t.base, t.size)
	t.Cover(t.size)
	if over != nil {
		t.Succeed(over.Tape)
	}
	for i, from := range live {
		t.Adopt(uint32(len(p.slots)+i), from)
		if from.Flags&stream.FlagPinned != 0 {
			s.Pinned(t.Tape, 1)
		}
	}
	s.tapes = append(s.tapes, t)
	return t
}

// serve builds a tape over an arena of its own and serves it.
func (s *suite) serve(p plan) *tape {
	s.Helper()
	s.Lock()
	defer s.Unlock()
	s.now = s.build(p, nil)
	s.Serve(s.now.Tape, nil)
	return s.now
}

// replace puts another tape over the served one's arena.
func (s *suite) replace(p plan) {
	s.Helper()
	s.Lock()
	defer s.Unlock()
	s.replaceLocked(p, nil)
}

// replaceLocked is replace under the lock. between happens when the new tape has adopted
// the blocks and is not served yet.
func (s *suite) replaceLocked(p plan, between func()) {
	s.Helper()
	old := s.now
	s.Settle()
	s.now = s.build(p, old)
	if between != nil {
		between()
	}
	s.Serve(s.now.Tape, old.Tape)
	s.tapes = slices.DeleteFunc(s.tapes, func(t *tape) bool { return t == old })
}

// giveUp stops serving the tape. The pool takes over what lives in its arena.
func (s *suite) giveUp(between func()) {
	s.Helper()
	s.Lock()
	t := s.now
	s.now = nil
	s.Serve(nil, nil)
	taken := t.Leave()
	s.Unlock()
	if between != nil {
		between()
	}
	s.Lock()
	for _, from := range taken {
		addr := t.base + mem.Addr(from.Slot.Offset)
		found, pinned := t.Forget(addr)
		if pinned {
			s.Pinned(t.Tape, -1)
		}
		if b := s.live[addr]; found {
			s.Takes(addr, mem.Bytes(from.Asked))
			if b != nil {
				b.pooled, b.pinned = true, false
			}
		}
	}
	s.Unlock()
}

// dropEmpty drops the tapes that are neither served nor hold a block, and those alone.
func (s *suite) dropEmpty() {
	s.Lock()
	defer s.Unlock()
	s.Settle()
	s.tapes = slices.DeleteFunc(s.tapes, func(t *tape) bool {
		if t == s.now || len(t.Leave()) > 0 {
			return false
		}
		s.Drop(t.Tape)
		return true
	})
}

// alloc asks for a block and notes it.
func (s *suite) alloc(asked mem.Bytes) mem.Addr {
	s.Helper()
	addr := s.Alloc(asked)
	if addr == 0 {
		return 0
	}
	for at, b := range s.live {
		if at < addr+mem.Addr(mem.Round(asked)) && addr < at+mem.Addr(mem.Round(b.asked)) {
			s.Fatalf("%v at %#x overlap the live block of %v at %#x", asked, addr, b.asked, at)
		}
	}
	s.live[addr] = &block{asked: asked}
	s.events = append(s.events, actors.Event{Addr: addr, Size: mem.Round(asked), Kind: actors.EventHit})
	return addr
}

// all asks for every slot of the served plan, which must all be hits where the plan
// says, and returns them.
func (s *suite) all() (addrs []mem.Addr) {
	s.Helper()
	for i, slot := range s.now.plan.slots {
		addr := s.alloc(slot.Size)
		if want := s.now.base + mem.Addr(slot.Offset); addr != want {
			s.Fatalf("request %d was served at %#x, the plan says %#x", i, addr, want)
		}
		addrs = append(addrs, addr)
	}
	return addrs
}

// gone notes that a block is freed; who frees it is up to the test.
func (s *suite) gone(addr mem.Addr) {
	delete(s.live, addr)
	s.events = append(s.events, actors.Event{Addr: addr, Kind: actors.EventFree})
}

func (s *suite) free(addrs ...mem.Addr) {
	for _, addr := range addrs {
		s.gone(addr)
		s.Free(addr)
	}
}

// beside has another thread free blocks while somebody has the lock, and returns what
// waits for it once the lock is free. A port that announces has announced them when this
// returns; what cannot be announced (a pinned block, one of the pool) waits, and is not
// waited for here.
func (s *suite) beside(addrs ...mem.Addr) (wait func()) {
	done := make(chan bool)
	go func() {
		for _, addr := range addrs {
			s.Free(addr)
		}
		close(done)
	}()
	if s.Announces() {
		select {
		case <-done:
		case <-time.After(20 * time.Millisecond):
		}
	}
	return func() {
		<-done
		for _, addr := range addrs {
			s.gone(addr)
		}
	}
}

// freeLocked frees blocks while somebody else has the lock and does something.
func (s *suite) freeLocked(do func(), addrs ...mem.Addr) {
	s.Lock()
	wait := s.beside(addrs...)
	if do != nil {
		do()
	}
	s.Unlock()
	wait()
}
