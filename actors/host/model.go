package host

import (
	"sync"
	"sync/atomic"

	"stalloc/engine/index"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// Model is a Host for programs that call the allocator from Go. It has no fast path: every request
// is a message.
type Model struct {
	mu      sync.Mutex
	cursors map[mem.StreamID]*[schedule.Cursors]schedule.Cursor
	events  []schedule.Event
	full    uint64 // events that were lost since Take
	mute    bool
	// streams that are never destroyed
	persistent map[mem.StreamID]bool
	lost       atomic.Uint64 // ever
	load       atomic.Int64  // rounded bytes of live blocks
	peak       atomic.Int64
	most       atomic.Int64 // of load since TakeLoad
}

// NewModel makes a host without streams.
func NewModel() *Model {
	return &Model{cursors: map[mem.StreamID]*[schedule.Cursors]schedule.Cursor{},
		persistent: map[mem.StreamID]bool{0: true}}
}

// Captures implements Host: there is no way to begin a pool.
func (h *Model) Captures() int { return 0 }

func (h *Model) Persistent(id mem.StreamID) bool { return h.persistent[id] }

// SetPersistent says that a stream is never destroyed.
func (h *Model) SetPersistent(id mem.StreamID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.persistent[id] = true
}

func (h *Model) MayWait() bool                        { return true }
func (h *Model) Lock()                                { h.mu.Lock() }
func (h *Model) Unlock()                              { h.mu.Unlock() }
func (h *Model) Begin(mem.Addr, mem.Bytes, mem.Bytes) {}
func (h *Model) Index() index.Index                   { return index.NewModel() }
func (h *Model) SetBudget(Budget)                     {}

func (h *Model) cursor(id mem.StreamID, cursor int) *schedule.Cursor {
	t := h.cursors[id]
	if t == nil {
		t = &[schedule.Cursors]schedule.Cursor{}
		h.cursors[id] = t
	}
	return &t[cursor]
}

func (h *Model) Build(entries []schedule.Entry) *Schedule {
	if len(entries) == 0 {
		return nil
	}
	return &Schedule{Entries: entries}
}

func (h *Model) SetSchedule(id mem.StreamID, cursor int, r *Schedule) {
	if r == nil {
		r = &Schedule{}
	}
	h.cursor(id, cursor).Replace(r.Entries)
}

func (h *Model) Next(id mem.StreamID, cursor int, units uint64) schedule.Entry {
	return h.cursor(id, cursor).Next(units)
}

func (h *Model) Count(id mem.StreamID, cursor int, hit bool) { h.cursor(id, cursor).Count(hit) }

func (h *Model) Served(id mem.StreamID) (hits, misses uint64) {
	for i := range schedule.Cursors {
		t := h.cursor(id, i)
		hits, misses = hits+t.Hits, misses+t.Misses
	}
	return hits, misses
}

func (h *Model) Note(e schedule.Event) {
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

func (h *Model) Logged() int { return len(h.events) }

func (h *Model) Take() (events []schedule.Event, lost uint64) {
	events, lost = h.events, h.full
	h.events, h.full = make([]schedule.Event, 0, len(events)), 0
	return events, lost
}

// Return implements Host: the collector has them.
func (h *Model) Return([]schedule.Event) {}

func (h *Model) Observe(on bool) { h.mute = !on }

// Lost returns how many events were lost, ever.
func (h *Model) Lost() uint64 { return h.lost.Load() }

// Load returns the rounded bytes of live blocks.
func (h *Model) Load() mem.Bytes { return mem.Bytes(h.load.Load()) }

// Peak returns the highest load so far.
func (h *Model) Peak() mem.Bytes { return mem.Bytes(h.peak.Load()) }

// TakeLoad implements Host.
func (h *Model) TakeLoad() (now, most mem.Bytes) {
	load := h.load.Load()
	return mem.Bytes(load), mem.Bytes(max(load, h.most.Swap(load)))
}

// AddLoad notes rounded bytes of a block that begins to live, or ends (negative).
func (h *Model) AddLoad(n mem.Bytes) {
	load := h.load.Add(int64(n))
	for _, peak := range []*atomic.Int64{&h.peak, &h.most} {
		for x := peak.Load(); load > x && !peak.CompareAndSwap(x, load); x = peak.Load() {
		}
	}
}
