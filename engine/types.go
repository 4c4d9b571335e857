package engine

import "stalloc/internal/mem"

// Range is a range of addresses.
type Range struct {
	Addr mem.Addr
	Size mem.Bytes
}

// Block is what a policy tells about a live or pending block.
type Block struct {
	Addr    mem.Addr
	Size    mem.Bytes // rounded up to mem.Grain
	Asked   mem.Bytes // what was asked for
	Stream  mem.StreamID
	Pool    uint64
	Pending bool // freed, but other streams may still use it
}

// Usage is what the memory is used for at a moment.
type Usage struct {
	Live    map[Use]int // blocks, by what is alike of them
	Steps   uint32      // that have ended
	Whole   mem.Bytes   // free memory in wholly free handles that may serve any request
	Private mem.Bytes   // free memory of private pools, which serves theirs alone
}

// Use is what is told apart of live blocks.
type Use struct {
	Size mem.Bytes
	Step uint32 // steps that had ended when it was allocated
}

// Stats counts the state and what has been done. Amounts are bytes of blocks
// after rounding; handles are counted in 2 MiB.
type Stats struct {
	Load     mem.Bytes // in live blocks
	PeakLoad mem.Bytes
	Pending  mem.Bytes // in freed blocks that wait for fences
	Blocks   int       // live and pending

	Handles     int // created and not released
	FreeHandles int // free memory of arenas: with onerange that of handles in partial use, too
	Mapped      int // pages mapped, aliases counted each
	Views       int

	Hits     uint64 // requests served at their planned offsets
	Fits     uint64 // requests served from another gap
	Stitches uint64 // requests that mapped pages
	Refused  uint64

	Creates  uint64 // driver calls asked for, per handle
	Maps     uint64
	Releases uint64
	Syncs    uint64
	Evicted  uint64 // idle views unmapped
	Adopted  uint64 // handles moved between streams
	Lent     uint64 // handles lent by one stream to another
}
