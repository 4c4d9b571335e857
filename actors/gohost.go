package actors

import (
	"sync"
	"sync/atomic"

	"stalloc/internal/mem"
	"stalloc/stream/brief"
	"stalloc/stream/wish"
)

// GoHost is a Host for programs that call the allocator from Go. It has no quick case:
// every request is a message.
type GoHost struct {
	mu     sync.Mutex
	tapes  map[mem.StreamID]*[wish.Tapes]wish.Tape
	events []wish.Event
	before brief.History // of what comes next
	brief  brief.Table
	full   uint64 // events that were lost since Clear
	mute   bool
	lost   atomic.Uint64 // ever
	load   atomic.Int64  // rounded bytes of live blocks
	peak   atomic.Int64
}

// NewGoHost returns a host without streams.
func NewGoHost() *GoHost { return &GoHost{tapes: map[mem.StreamID]*[wish.Tapes]wish.Tape{}} }

// Load implements Host.
func (h *GoHost) Load() mem.Bytes { return mem.Bytes(h.load.Load()) }

// Lock implements Host.
func (h *GoHost) Lock() { h.mu.Lock() }

// Unlock implements Host.
func (h *GoHost) Unlock() { h.mu.Unlock() }

// Tapes implements Host.
func (h *GoHost) Tapes(id mem.StreamID) *[wish.Tapes]wish.Tape {
	t := h.tapes[id]
	if t == nil {
		t = &[wish.Tapes]wish.Tape{}
		for i := range t {
			t[i].State = &wish.State{}
		}
		h.tapes[id] = t
	}
	return t
}

// Build implements Host.
func (h *GoHost) Build(entries []wish.Entry, _ bool) *Reel {
	if len(entries) == 0 {
		return nil
	}
	return &Reel{Entries: entries}
}

// Serve implements Host.
func (h *GoHost) Serve(id mem.StreamID, tape int, r *Reel) {
	if r == nil {
		r = &Reel{}
	}
	h.Tapes(id)[tape].Replace(r.Entries)
}

// Note implements Host.
func (h *GoHost) Note(e wish.Event) {
	if h.mute {
		return
	}
	if len(h.events) == MostEvents {
		h.full++
		h.lost.Add(1)
		return
	}
	h.events = append(h.events, e)
	h.before.Note(e)
}

// Events implements Host.
func (h *GoHost) Events() []wish.Event { return h.events }

// Clear implements Host.
func (h *GoHost) Clear() (lost uint64) {
	lost, h.full = h.full, 0
	h.events = h.events[:0]
	return lost
}

// Brief implements Host.
func (h *GoHost) Brief(size uint64) bool { return h.brief.Brief(&h.before, size) }

// SetBrief implements Host.
func (h *GoHost) SetBrief(t *brief.Table) { h.brief = *t }

// Observe implements Host.
func (h *GoHost) Observe(on bool) { h.mute = !on }

func (h *GoHost) count(n mem.Bytes) {
	load := h.load.Add(int64(n))
	for peak := h.peak.Load(); load > peak && !h.peak.CompareAndSwap(peak, load); peak = h.peak.Load() {
	}
}
