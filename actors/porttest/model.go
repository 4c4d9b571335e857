package porttest

import (
	"cmp"
	"math/rand/v2"
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

// plan is a step: slots and the orders of their events, as stream.Lay takes them.
type plan struct {
	slots  []stream.Slot
	orders [][]int32
	span   mem.Bytes
}

// random makes a valid plan of n slots, placed first fit; at the end nothing is live.
func random(r *rand.Rand, n int) plan {
	var p plan
	var order, live []int32
	for len(p.slots) < n || len(live) > 0 {
		if len(p.slots) < n && (len(live) == 0 || r.IntN(5) < 3) {
			s := stream.Slot{Size: mem.Grain * mem.Bytes(1+r.IntN(12))}
			s.Offset = p.lowest(live, s.Size)
			p.span = max(p.span, mem.Bytes(s.Offset)+s.Size)
			live = append(live, int32(len(p.slots)))
			order = append(order, int32(len(p.slots)))
			p.slots = append(p.slots, s)
			continue
		}
		i := r.IntN(len(live))
		order = append(order, ^live[i])
		live = slices.Delete(live, i, i+1)
	}
	p.orders = [][]int32{order}
	return p
}

// row is a plan of n slots that are all live at once and freed in their order.
func row(n int, size mem.Bytes) (p plan) {
	order := make([]int32, 2*n)
	for i := range n {
		p.slots = append(p.slots, stream.Slot{Offset: mem.Offset(i) * mem.Offset(size), Size: size})
		order[i], order[n+i] = int32(i), ^int32(i)
	}
	p.span, p.orders = mem.Bytes(n)*size, [][]int32{order}
	return p
}

func (p *plan) lowest(live []int32, size mem.Bytes) (at mem.Offset) {
	for moved := true; moved; {
		moved = false
		for _, l := range live {
			if s := p.slots[l]; at < s.Offset+mem.Offset(s.Size) && s.Offset < at+mem.Offset(size) {
				at, moved = s.Offset+mem.Offset(s.Size), true
			}
		}
	}
	return at
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

// check compares everything with the model, which may have the lock settle first.
func (s *suite) check() {
	s.Helper()
	s.Look()
	s.Lock()
	s.Settle()
	found, wrong := make(map[mem.Addr]bool), 0
	for _, t := range s.tapes {
		if err := t.Check(); err != nil {
			s.Error(err)
		}
		for _, l := range t.Leave() {
			addr := t.base + mem.Addr(l.Slot.Offset)
			found[addr] = true
			if b := s.live[addr]; b == nil || b.pooled || b.asked != mem.Bytes(l.Asked) {
				if wrong++; wrong <= 3 {
					s.Errorf("%d bytes live at %#x of a tape, the model has %+v", l.Asked, addr, b)
				}
			}
		}
	}
	if wrong > 3 {
		s.Errorf("and %d more", wrong-3)
	}
	events, lost := s.Observed(nil)
	s.Unlock()
	var load mem.Bytes
	for addr, b := range s.live {
		load += mem.Round(b.asked)
		if !b.pooled && !found[addr] {
			s.Errorf("the block at %#x lives on no tape", addr)
		}
	}
	if got := s.Load() - s.before; got != load {
		s.Errorf("the load is %v, want %v", got, load)
	}
	if lost {
		s.Error("events were lost")
	}
	s.compare(events)
	if _, unknown := s.Pooled(); unknown > 0 {
		s.Errorf("%d frees of live blocks were of no block", unknown)
	}
	if s.Failed() {
		s.FailNow()
	}
}

// compare holds the events to the model's, but for the order of those that were
// announced, and for the sizes of frees.
func (s *suite) compare(got []actors.Event) {
	s.Helper()
	want := slices.Clone(s.events)
	s.events = nil
	got = slices.Clone(got)
	for i := range got {
		if got[i].Kind == actors.EventFree {
			got[i].Size = 0
		}
	}
	for _, events := range [][]actors.Event{got, want} {
		slices.SortFunc(events, func(a, b actors.Event) int {
			return cmp.Or(cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Size, b.Size))
		})
	}
	if !slices.Equal(got, want) {
		first := 0
		for first < min(len(got), len(want)) && got[first] == want[first] {
			first++
		}
		s.Errorf("observed %d events, want %d; sorted by address, the first that differ are %+v and %+v", len(got), len(want),
			got[first:min(first+1, len(got))], want[first:min(first+1, len(want))])
	}
}

// end frees what lives, drops the tapes and expects nothing to be left.
func (s *suite) end() {
	s.Helper()
	for addr := range s.live {
		s.free(addr)
	}
	s.check()
	if s.now != nil {
		s.Lock()
		s.Serve(nil, nil)
		s.Unlock()
		s.now = nil
	}
	s.dropEmpty()
	if len(s.tapes) > 0 {
		s.Errorf("%d tapes hold blocks at the end", len(s.tapes))
	}
}
