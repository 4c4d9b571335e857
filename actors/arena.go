package actors

import (
	"sync"
	"sync/atomic"

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
	// The addresses that it has, and how many of its bytes the plan needs; it may have
	// memory for less, see grow.go.
	room, span mem.Bytes
	// parts are the starts of the engine's blocks that the arena consists of.
	parts []mem.Addr
	// prologue counts the boundaries that order 0 still spans; from then on the
	// orders from steady on are played, one at each step. The first cut tapes of
	// the plan are over and not among the orders.
	prologue, steady, cut int
	past                  stream.Succession // of steady orders
	guess                 int               // the order that was expected in this step

	mu   sync.Mutex
	pins map[mem.Addr][]mem.StreamID // live slots that other streams use
}

// contains reports whether an address lies in the arena.
func (a *arena) contains(addr mem.Addr) bool { return addr-a.base < mem.Addr(a.size.Load()) }

func (a *arena) bytes() mem.Bytes { return mem.Bytes(a.size.Load()) }

// further returns how many bytes to ask for so that the arena has as many as end, or a
// page more, and what it has then. It may have been dissolved within a page, whose rest
// comes with what is asked for; otherwise it consists of whole pages.
func (a *arena) further(end mem.Bytes) (size, then mem.Bytes) {
	from := mem.RoundUp(a.bytes(), mem.HandleSize)
	then = max(mem.RoundUp(end, mem.HandleSize), from+mem.HandleSize)
	return then - from, then
}

// pin notes that another stream uses the live slot at addr.
func (a *arena) pin(addr mem.Addr, id mem.StreamID) bool {
	port := a.lane.port
	port.Lock()
	defer port.Unlock()
	if !a.tape.Pin(addr) {
		return false
	}
	// Noted before the port is unlocked: whoever frees the slot, or takes it over,
	// must know of the stream.
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pins == nil {
		a.pins = make(map[mem.Addr][]mem.StreamID)
	}
	if len(a.pins[addr]) == 0 {
		port.Pinned(a.tape, 1)
	}
	a.pins[addr] = append(a.pins[addr], id)
	return true
}

// free frees the slot or guest at addr.
func (a *arena) free(addr mem.Addr) stream.Freed {
	a.lane.port.Lock()
	defer a.lane.port.Unlock()
	return a.tape.Free(addr)
}

// find returns the slot or guest that contains addr.
func (a *arena) find(addr mem.Addr) (mem.Addr, mem.Bytes, bool) {
	a.lane.port.Lock()
	defer a.lane.port.Unlock()
	return a.tape.Find(addr)
}

// users takes the streams that used a pinned slot.
func (a *arena) users(addr mem.Addr) []mem.StreamID {
	a.mu.Lock()
	defer a.mu.Unlock()
	users := a.pins[addr]
	delete(a.pins, addr)
	return users
}

// unpin ends the life of a pinned slot: every stream that used it is past it. It
// returns false if the slot has become a block of the pool meanwhile.
func (a *arena) unpin(addr mem.Addr, rounded mem.Bytes) bool {
	port := a.lane.port
	port.Lock()
	defer port.Unlock()
	port.Pending(-rounded)
	if !a.tape.Release(addr) {
		return false
	}
	port.Pinned(a.tape, -1)
	return true
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
	if a.guess = max(a.past.Next(), a.steady); a.guess < len(a.tape.Orders) {
		a.lane.port.Play(a.tape, a.guess)
	}
}

// lost notes a step that did not follow the order that was guessed: it was the one
// it turned to, or another one, if there are any. The port is locked.
func (a *arena) lost() {
	order, n := a.tape.Order(), len(a.tape.Orders)
	if a.prologue > 0 || a.steady >= n {
		return
	}
	if order == a.guess {
		order = a.steady + (order-a.steady+1)%(n-a.steady)
	}
	a.past.Ended(order)
}

// topOf returns where the persistent ones of some blocks end.
func topOf(live []stream.Adopted) (top mem.Bytes) {
	for _, l := range live {
		if l.Flags&stream.FlagPersists != 0 {
			top = max(top, mem.Bytes(l.Slot.Offset)+l.Slot.Size)
		}
	}
	return top
}
