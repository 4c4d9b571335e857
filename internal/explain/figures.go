// Package explain says for people where a device's memory is: a table, one reason, and what
// to try. It is pure: whoever knows the figures fills in Figures, and the text follows from
// them alone.
//
//	f := explain.Figures{Asked: 2 << 30, Why: explain.Full, Reserved: ..., ...}
//	f.Refusal()   // the reason, the table, what to try: the text of an out of memory
//	f.Table()     // the table alone, for whoever asks at any time
//
// A reason is given only if the figures bear it out. Where they do not, the text says what
// the engine or the driver said, and no more.
package explain

import "stalloc/internal/mem"

// Why is what ended a request.
type Why uint8

const (
	Unknown  Why = iota // nothing was refused, or nobody knows
	Full                // the driver has no memory left
	Limit               // the limit that the program has set is reached
	TooLarge            // no block can be that large
	Window              // no addresses are left
	Driver              // the driver failed with Code
)

// Figures are what is known of a device's memory at one moment. Amounts are bytes. What is
// zero or empty is not known, or there is none of it, and is left out of the text.
type Figures struct {
	Device string `json:"device,omitempty"` // its name

	// The request that was refused; Asked is zero where nothing was.
	Asked  mem.Bytes    `json:"asked_bytes,omitempty"`
	Stream mem.StreamID `json:"stream,omitempty"`
	Why    Why          `json:"-"`
	Code   int          `json:"driver_error,omitempty"` // the driver's, with Why Driver

	// Of the device, as the driver counts: Total is zero if it does not tell.
	Total mem.Bytes `json:"device_total_bytes,omitempty"`
	Free  mem.Bytes `json:"device_free_bytes"`
	Limit mem.Bytes `json:"limit_bytes,omitempty"` // that the program has set

	// Of stalloc. Reserved = Allocated + Pending + what is free in it.
	Reserved     mem.Bytes `json:"reserved_bytes"`
	PeakReserved mem.Bytes `json:"peak_reserved_bytes,omitempty"`
	Allocated    mem.Bytes `json:"allocated_bytes"` // in live blocks
	Blocks       int       `json:"blocks,omitempty"`
	Pending      mem.Bytes `json:"pending_bytes"` // freed, other streams still use them
	// that the driver takes no question about
	LateFences int `json:"late_fences,omitempty"`
	// of the free memory, in handles that nothing lies in
	Whole mem.Bytes `json:"free_handles_bytes"`
	// of the free memory, in private pools of graphs
	Private     mem.Bytes `json:"private_idle_bytes"`
	LargestGap  mem.Bytes `json:"largest_gap_bytes"`       // contiguous free bytes
	NoStitching bool      `json:"stitching_off,omitempty"` // free handles are not put together
	Sizes       []Size    `json:"largest_sizes,omitempty"` // of live blocks
	// of live blocks, in the order of time
	Phases       []Phase  `json:"allocated_when,omitempty"`
	Holders      []Holder `json:"processes,omitempty"`       // of the device's memory
	HoldersError string   `json:"processes_error,omitempty"` // why they may be incomplete
	Note         string   `json:"note,omitempty"`            // what else is known, as a sentence
}

// Size sums up live blocks of one size.
type Size struct {
	Size   mem.Bytes `json:"size_bytes"`
	Blocks int       `json:"blocks"`
}

// Sum is what the blocks take together.
func (s Size) Sum() mem.Bytes { return s.Size * mem.Bytes(s.Blocks) }

// Phase sums up live blocks by when they were allocated: "before the first step", "step 7".
type Phase struct {
	Name   string    `json:"phase"`
	Blocks int       `json:"blocks"`
	Bytes  mem.Bytes `json:"bytes"`
	// Between: in steps behind the first and before the last, of which usually nothing stays.
	Between bool `json:"between,omitempty"`
}

// Holder is a process that holds memory of the device, as NVML tells.
type Holder struct {
	PID  int       `json:"pid"`
	Name string    `json:"name,omitempty"`
	Used mem.Bytes `json:"used_bytes"` // below zero: the driver does not tell
	Self bool      `json:"self,omitempty"`
}

// Idle is the memory that is held and neither live nor waited for.
func (f *Figures) Idle() mem.Bytes { return max(f.Reserved-f.Allocated-f.Pending, 0) }

// Others is the memory of the device that stalloc does not hold and that is not free: the
// CUDA context, libraries and other processes. It is zero if the device does not tell.
func (f *Figures) Others() mem.Bytes { return max(f.Total-f.Free-f.Reserved, 0) }

// Short is how much more memory the request needs than could be had at once, and whether it
// is more: the driver's free memory and wholly free handles of ours, up to the limit.
func (f *Figures) Short() (mem.Bytes, bool) {
	if f.Asked == 0 || f.Total == 0 {
		return 0, false
	}
	room := f.Free
	if f.Limit > 0 {
		room = min(room, max(f.Limit-f.Reserved, 0))
	}
	short := f.Asked - room - f.Whole
	return max(short, 0), short > 0
}
