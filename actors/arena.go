package actors

import (
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream"
)

// arena is the address range of one stream's plan, and the tape that is served
// from it. Plans come and go over the same arena: a new one is laid around the
// blocks that live there, and the arena grows at its end if it must. Mapping
// costs the driver some 27 µs a handle, so an arena is never made anew while the
// old one will do.
type arena struct {
	lane *lane
	part *plan.Stream
	tape *stream.Tape
	base mem.Addr
	size atomic.Int64 // grows under the port's lock
	// parts are the starts of the engine's blocks that the arena consists of.
	parts []mem.Addr
	// prologue counts the boundaries that order 0 still spans; from then on the
	// orders from steady on are played, one at each step.
	prologue, steady int
	past             stream.Succession // of steady orders

	mu   sync.Mutex
	pins map[mem.Addr][]mem.StreamID // live slots that other streams use
}

// contains reports whether an address lies in the arena.
func (a *arena) contains(addr mem.Addr) bool { return addr-a.base < mem.Addr(a.size.Load()) }

func (a *arena) bytes() mem.Bytes { return mem.Bytes(a.size.Load()) }

// pin notes that another stream uses the live slot at addr.
func (a *arena) pin(addr mem.Addr, id mem.StreamID) bool {
	port := a.lane.port
	port.Lock()
	ok := a.tape.Pin(addr)
	if ok {
		port.Pinned(a.tape, 1)
	}
	port.Unlock()
	if ok {
		a.mu.Lock()
		if a.pins == nil {
			a.pins = make(map[mem.Addr][]mem.StreamID)
		}
		a.pins[addr] = append(a.pins[addr], id)
		a.mu.Unlock()
	}
	return ok
}

// users takes the streams that used a pinned slot.
func (a *arena) users(addr mem.Addr) []mem.StreamID {
	a.mu.Lock()
	defer a.mu.Unlock()
	users := a.pins[addr]
	delete(a.pins, addr)
	return users
}

// unpin ends the life of a pinned slot: every stream that used it is past it.
func (a *arena) unpin(addr mem.Addr, rounded mem.Bytes) {
	port := a.lane.port
	port.Lock()
	a.tape.Release(addr)
	port.Pinned(a.tape, -1)
	port.Pending(-rounded)
	port.Unlock()
}

// step goes on with the order that is likely to be next. The port is locked.
func (a *arena) step() {
	if a.prologue == 0 {
		a.past.Ended(a.tape.Order())
	} else if a.prologue--; a.prologue > 0 {
		return
	}
	a.play()
}

func (a *arena) play() {
	if next := max(a.past.Next(), a.steady); next < len(a.tape.Orders) {
		a.lane.port.Play(a.tape, next)
	}
}

// persistTop returns where the persistent blocks of the arena end. A new plan is
// laid above it.
func (a *arena) persistTop() (top mem.Bytes) {
	a.lane.port.Lock()
	defer a.lane.port.Unlock()
	for _, l := range a.tape.Leave() {
		if l.Flags&stream.FlagPersists != 0 {
			top = max(top, mem.Bytes(l.Slot.Offset)+l.Slot.Size)
		}
	}
	return top
}

func (a *arena) empty() bool {
	a.lane.port.Lock()
	defer a.lane.port.Unlock()
	return a.tape.State.LiveN == 0
}

// install makes a stream's plan the one that is served: over the arena there is,
// if it can hold it.
func (s *supervisor) install(l *lane, ps *plan.Stream) error {
	shift := mem.Bytes(0)
	if l.serving != nil {
		shift = l.serving.persistTop()
		need := mem.RoundUp(shift+ps.Arena, mem.HandleSize)
		fits := need <= l.serving.bytes() || s.grow(l.serving, need)
		if l.serving.empty() && (!fits || need < l.serving.bytes()/2) {
			s.withdraw(l)
			shift = 0
		}
	}
	a := l.serving
	if need := mem.RoundUp(shift+ps.Arena, mem.HandleSize); a == nil || a.bytes() < need {
		request := &allocRequest{size: ps.Arena, stream: l.port.ID(), whole: true}
		if s.d.ask(s.d.pool, request); request.err != nil {
			return request.err
		}
		s.withdraw(l) // it holds blocks and cannot grow: it retires when they are gone
		a = &arena{lane: l, base: request.addr, parts: []mem.Addr{request.addr}}
		a.size.Store(int64(ps.Arena))
		shift = 0
	}
	if err := s.lay(a, ps, shift); err != nil {
		if l.serving != a {
			s.giveBack(a)
		}
		return err
	}
	return nil
}

// lay makes a tape of the plan over the arena, shifted up, around the blocks that
// live there, and serves it.
func (s *supervisor) lay(a *arena, ps *plan.Stream, shift mem.Bytes) error {
	l := a.lane
	l.port.Lock()
	defer l.port.Unlock()
	var live []stream.Adopted
	if a.tape != nil {
		l.port.Settle()
		live = a.tape.Leave()
	}
	slots, orders := shifted(ps, shift)
	own := len(slots)
	for _, from := range live {
		slots = append(slots, from.Slot)
	}
	layout, err := stream.Lay(slots, orders...)
	if err != nil {
		return err
	}
	tape := l.port.Build(layout, a.base, a.bytes())
	for i, from := range live {
		tape.Adopt(uint32(own+i), from)
		if from.Flags&stream.FlagPinned != 0 {
			l.port.Pinned(tape, 1)
		}
	}
	instead := a.tape
	if instead != nil {
		l.keep(instead.State)
	} else {
		s.d.remember(a)
	}
	a.part, a.tape, a.past = ps, tape, stream.Succession{}
	a.prologue, a.steady = boundariesOf(ps, int(s.d.steps.Load()))
	if a.prologue == 0 {
		a.play()
	}
	l.serving = a
	l.active.Store(true)
	l.port.Serve(tape, instead)
	return nil
}

// shifted turns a stream's plan into what a tape is laid from.
func shifted(ps *plan.Stream, shift mem.Bytes) (slots []stream.Slot, orders [][]int32) {
	slots = make([]stream.Slot, len(ps.Slots))
	for i, s := range ps.Slots {
		slots[i] = stream.Slot{Size: s.Size, Persist: s.Persist, Pool: s.Pool}
		if !s.Pool {
			slots[i].Offset = s.Offset + mem.Offset(shift)
		}
	}
	orders = make([][]int32, len(ps.Tapes))
	for t, tape := range ps.Tapes {
		orders[t] = make([]int32, len(tape.Entries))
		for i, e := range tape.Entries {
			orders[t][i] = int32(e)
		}
	}
	return slots, orders
}

// grow lengthens an arena at its end, and reports whether it could.
func (s *supervisor) grow(a *arena, need mem.Bytes) bool {
	request := &allocRequest{size: need - a.bytes(), stream: a.lane.port.ID(), whole: true, after: a.parts[len(a.parts)-1]}
	if s.d.ask(s.d.pool, request); request.err != nil {
		return false
	}
	a.lane.port.Lock()
	a.parts = append(a.parts, request.addr)
	a.size.Store(int64(need))
	a.lane.port.Unlock()
	return true
}

// giveBack returns an arena's memory to the pool.
func (s *supervisor) giveBack(a *arena) {
	for _, at := range a.parts {
		free := &freeRequest{addr: at, arena: true}
		if s.d.ask(s.d.pool, free); free.err != nil {
			s.d.log.Error("an arena could not be given back", zap.Error(free.err))
		}
	}
}
