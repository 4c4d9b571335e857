package actors

import (
	"sync"
	"sync/atomic"

	"stalloc/internal/mem"
	"stalloc/stream"
)

// EventKind says what was observed on a stream. The values are C's.
type EventKind uint8

const (
	EventHit  EventKind = 1 + iota // a block was handed out from the tape
	EventMiss                      // a block was handed out by the pool
	EventFree
	EventPin // another stream uses the block
)

// Event is one observed event of a stream.
type Event struct {
	Addr mem.Addr
	Size mem.Bytes // rounded; 0 for a free
	Kind EventKind
}

// Port is the memory through which one stream is served. In a training process
// it is shared with C, whose threads serve hits in it; in a Go program that
// embeds the allocator, and in a replay, it is a GoPort.
type Port interface {
	ID() mem.StreamID
	// Lock takes the stream's lock, under which everything below happens, and
	// performs the frees that were announced meanwhile. It is held only for
	// bounded work that waits for nothing.
	Lock()
	Unlock()
	// Build makes a tape over an arena at base: its arrays, not yet served.
	Build(l *stream.Layout, base mem.Addr, size mem.Bytes) *stream.Tape
	// Play is a step boundary of the tape at which it goes on with an order.
	Play(t *stream.Tape, order int)
	// Turned says that the tape went over to another of its orders within a step.
	Turned(t *stream.Tape)
	// Serve makes the tape the one that is served, and known to frees; nil:
	// none. If it stands over the arena of another tape, whose blocks it has
	// adopted, that one is named and reached no more.
	Serve(t, instead *stream.Tape)
	// Settle performs the frees that were announced for tapes that are not
	// served any more: at every boundary, and where a step is marked.
	Settle()
	// Drop frees the arrays of a tape that is neither served nor holds a block.
	Drop(t *stream.Tape)
	// HandOut counts a block that the slow side served from the tape and
	// observes it.
	HandOut(addr mem.Addr, asked mem.Bytes)
	// Pinned says that n more (or fewer) slots of the tape are pinned.
	Pinned(t *stream.Tape, n int)
	// Pending counts freed bytes that wait for other streams.
	Pending(n mem.Bytes)
	// Observed appends the events since the last call and reports whether
	// some were lost in between.
	Observed(to []Event) ([]Event, bool)
}

// Host lists the streams of a device in the order of their first request. The
// list only grows.
type Host interface {
	Ports() []Port
	Load() mem.Bytes // of live blocks, rounded
}

// GoHost is a Host for programs that call the allocator from Go.
type GoHost struct {
	mu    sync.RWMutex
	ports []Port
	byID  map[mem.StreamID]*GoPort
	// Load and its peak over all streams, in rounded bytes.
	load, peak, pending atomic.Int64
	lost                atomic.Uint64 // events
}

// Load implements Host.
func (h *GoHost) Load() mem.Bytes { return mem.Bytes(h.load.Load()) }

// NewGoHost returns a host without streams.
func NewGoHost() *GoHost { return &GoHost{byID: make(map[mem.StreamID]*GoPort)} }

// Ports implements Host.
func (h *GoHost) Ports() []Port {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.ports[:len(h.ports):len(h.ports)]
}

// Port returns the stream's port, made on first sight.
func (h *GoHost) Port(id mem.StreamID) *GoPort {
	h.mu.RLock()
	p := h.byID[id]
	h.mu.RUnlock()
	if p != nil {
		return p
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p = h.byID[id]; p == nil {
		p = &GoPort{id: id, host: h}
		h.byID[id] = p
		h.ports = append(h.ports, p)
	}
	return p
}

func (h *GoHost) count(n mem.Bytes) {
	load := h.load.Add(int64(n))
	for peak := h.peak.Load(); load > peak && !h.peak.CompareAndSwap(peak, load); peak = h.peak.Load() {
	}
}

// GoPort is a Port in Go's own memory.
type GoPort struct {
	id     mem.StreamID
	host   *GoHost
	mu     sync.Mutex
	tape   *stream.Tape
	events []Event
	lost   bool
}

// MostEvents is how many events of a stream are kept between two boundaries; a step of
// more is not planned. It bounds memory: in C, 16 bytes an event.
const MostEvents = 1 << 20

// ID implements Port.
func (p *GoPort) ID() mem.StreamID { return p.id }

// Lock implements Port.
func (p *GoPort) Lock() { p.mu.Lock() }

// Unlock implements Port.
func (p *GoPort) Unlock() { p.mu.Unlock() }

// Build implements Port.
func (p *GoPort) Build(l *stream.Layout, base mem.Addr, _ mem.Bytes) *stream.Tape {
	return stream.New(l, base)
}

// Play implements Port.
func (p *GoPort) Play(t *stream.Tape, order int) { t.Play(order) }

// Turned implements Port.
func (p *GoPort) Turned(*stream.Tape) {}

// Serve implements Port.
func (p *GoPort) Serve(t, _ *stream.Tape) { p.tape = t }

// Settle implements Port.
func (p *GoPort) Settle() {}

// Drop implements Port.
func (p *GoPort) Drop(*stream.Tape) {}

// HandOut implements Port.
func (p *GoPort) HandOut(addr mem.Addr, asked mem.Bytes) {
	p.host.count(mem.Round(asked))
	p.push(Event{Addr: addr, Size: mem.Round(asked), Kind: EventHit})
}

// Pinned implements Port.
func (p *GoPort) Pinned(*stream.Tape, int) {}

// Pending implements Port.
func (p *GoPort) Pending(n mem.Bytes) { p.host.pending.Add(int64(n)) }

// Observed implements Port.
func (p *GoPort) Observed(to []Event) ([]Event, bool) {
	to = append(to, p.events...)
	lost := p.lost
	p.events, p.lost = p.events[:0], false
	return to, lost
}

func (p *GoPort) push(e Event) {
	if len(p.events) == MostEvents {
		p.lost = true
		p.host.lost.Add(1)
		return
	}
	p.events = append(p.events, e)
}
