package actors

import (
	"sync"
	"sync/atomic"

	"stalloc/engine/index"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// GoHost is a Host for programs that call the allocator from Go. It has no quick case:
// every request is a message.
type GoHost struct {
	mu      sync.Mutex
	cursors map[mem.StreamID]*[schedule.Cursors]schedule.Cursor
	events  []schedule.Event
	full    uint64 // events that were lost since Take
	mute    bool
	lasting map[mem.StreamID]bool
	lost    atomic.Uint64 // ever
	load    atomic.Int64  // rounded bytes of live blocks
	peak    atomic.Int64
}

// NewGoHost returns a host without streams.
func NewGoHost() *GoHost {
	return &GoHost{cursors: map[mem.StreamID]*[schedule.Cursors]schedule.Cursor{},
		lasting: map[mem.StreamID]bool{0: true}}
}

// Pools implements Host: there is no way to begin one.
func (h *GoHost) Pools() int { return 0 }

// Lasts implements Host.
func (h *GoHost) Lasts(id mem.StreamID) bool { return h.lasting[id] }

// MayWait implements Host.
func (h *GoHost) MayWait() bool { return true }

// Load implements Host.
func (h *GoHost) Load() mem.Bytes { return mem.Bytes(h.load.Load()) }

// Lock implements Host.
func (h *GoHost) Lock() { h.mu.Lock() }

// Unlock implements Host.
func (h *GoHost) Unlock() { h.mu.Unlock() }

// Begin implements Host.
func (h *GoHost) Begin(mem.Addr, mem.Bytes, mem.Bytes) {}

// Index implements Host.
func (h *GoHost) Index() index.Index { return index.NewModel() }

// Allow implements Host.
func (h *GoHost) Allow(Terms) {}

func (h *GoHost) cursor(id mem.StreamID, cursor int) *schedule.Cursor {
	t := h.cursors[id]
	if t == nil {
		t = &[schedule.Cursors]schedule.Cursor{}
		h.cursors[id] = t
	}
	return &t[cursor]
}

// Build implements Host.
func (h *GoHost) Build(entries []schedule.Entry) *Schedule {
	if len(entries) == 0 {
		return nil
	}
	return &Schedule{Entries: entries}
}

// Serve implements Host.
func (h *GoHost) Serve(id mem.StreamID, cursor int, r *Schedule) {
	if r == nil {
		r = &Schedule{}
	}
	h.cursor(id, cursor).Replace(r.Entries)
}

// Next implements Host.
func (h *GoHost) Next(id mem.StreamID, cursor int, units uint64) schedule.Entry {
	return h.cursor(id, cursor).Next(units)
}

// Count implements Host.
func (h *GoHost) Count(id mem.StreamID, cursor int, hit bool) { h.cursor(id, cursor).Count(hit) }

// Served implements Host.
func (h *GoHost) Served(id mem.StreamID) (hits, misses uint64) {
	for i := range schedule.Cursors {
		t := h.cursor(id, i)
		hits, misses = hits+t.Hits, misses+t.Misses
	}
	return hits, misses
}

// Note implements Host.
func (h *GoHost) Note(e schedule.Event) {
	if h.mute {
		return
	}
	if len(h.events) == MostEvents {
		h.full++
		h.lost.Add(1)
		return
	}
	h.events = append(h.events, e)
}

// Logged implements Host.
func (h *GoHost) Logged() int { return len(h.events) }

// Take implements Host.
func (h *GoHost) Take() (events []schedule.Event, lost uint64) {
	events, lost = h.events, h.full
	h.events, h.full = make([]schedule.Event, 0, len(events)), 0
	return events, lost
}

// Return implements Host: the collector has them.
func (h *GoHost) Return([]schedule.Event) {}

// Observe implements Host.
func (h *GoHost) Observe(on bool) { h.mute = !on }

func (h *GoHost) count(n mem.Bytes) {
	load := h.load.Add(int64(n))
	for peak := h.peak.Load(); load > peak &&
		!h.peak.CompareAndSwap(peak, load); peak = h.peak.Load() {
	}
}
