package engine

import "stalloc/internal/mem"

// Stats counts the state and what has been done. Amounts are bytes of blocks
// after rounding; handles are 2 MiB each.
type Stats struct {
	Load     mem.Bytes // in live blocks, arenas included
	PeakLoad mem.Bytes
	Pending  mem.Bytes // in freed blocks that wait for fences
	PeakHeld mem.Bytes // of load and pending together
	Blocks   int       // live and pending

	Handles     int // created and not released
	PeakHandles int
	FreeHandles int // of them wholly free
	Mapped      int // pages mapped, aliases counted each
	Views       int

	Sticky   uint64 // requests served where the last step had them
	Fits     uint64 // requests served from another free run
	Stitches uint64 // requests that mapped pages
	Patches  uint64 // of them, that took over a private view
	Refused  uint64

	Creates  uint64 // driver calls asked for, per handle
	Maps     uint64
	Unmaps   uint64
	Releases uint64
	Syncs    uint64
	Evicted  uint64 // idle views unmapped
	Adopted  uint64 // handles moved between streams
}

// Stats returns the counts as of the last event.
func (e *Engine) Stats() Stats {
	s := e.stats
	for i := range e.heaps {
		s.FreeHandles += e.heaps[i].freeCount
	}
	return s
}

// peaks are the highest counts so far. What a batch adds to them is undone with it.
type peaks struct {
	load, held mem.Bytes
	handles    int
}

func (s *Stats) peaks() peaks { return peaks{s.PeakLoad, s.PeakHeld, s.PeakHandles} }

func (s *Stats) restore(p peaks) {
	s.PeakLoad, s.PeakHeld = p.load, p.held
	s.PeakHandles = max(p.handles, s.Handles)
}

// PeakReserved is the physical memory held, at most, so far.
func (s Stats) PeakReserved() mem.Bytes { return mem.Bytes(s.PeakHandles) * mem.HandleSize }

// Reserved returns the physical memory that is held: the sizes of all handles.
func (e *Engine) Reserved() mem.Bytes { return mem.Bytes(e.stats.Handles) * mem.HandleSize }

// LargestFree returns the size of the largest free range as it is mapped now. Whole
// free handles can be stitched to a larger one.
func (e *Engine) LargestFree() (n mem.Bytes) {
	for i := range e.runs {
		n = max(n, bytesOf(e.runs[i].size()))
	}
	return n
}
