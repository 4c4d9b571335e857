package baseline

import (
	"stalloc/internal/cost"
	"stalloc/internal/mem"
)

// Call is a kind of driver call that manages memory.
type Call = cost.Call

const (
	MemAlloc    = cost.MemAlloc
	MemFree     = cost.MemFree
	Reserve     = cost.Reserve
	AddressFree = cost.AddressFree
	Create      = cost.Create
	Release     = cost.Release
	Map         = cost.Map
	Unmap       = cost.Unmap
	SetAccess   = cost.SetAccess
	CallKinds   = cost.CallKinds
)

// Calls counts driver calls, failed ones included, and the time they would
// take on the device the costs were measured on.
//
// A retry is charged with the calls of its flush: the failed one, a cudaFree for each
// segment or an unmap and a release for each page, and what is made anew. That it waits
// for the device first is not charged, for how far the device is behind no recording
// says. So a retry costs more than is charged: under expandable segments, limited to 1.03
// of its live memory, Hugging Face's Trainer took 14 % longer a step on an H200, and the
// driver is charged with 3 % here. Who compares speeds should look at retries as well.
type Calls struct {
	Count  [CallKinds]int64
	Micros float64
}

// Total is the number of calls of all kinds.
func (c Calls) Total() int64 {
	var n int64
	for _, k := range c.Count {
		n += k
	}
	return n
}

// add counts calls of one kind, each over n bytes.
func (c *Calls) add(k Call, n mem.Bytes, calls int64) {
	c.Count[k] += calls
	c.Micros += float64(calls) * cost.Micros(k, n)
}

// access counts one cuMemSetAccess over a range of handles of n bytes each. The
// driver takes its time for every handle, even in a single call.
func (c *Calls) access(n mem.Bytes, handles int64) {
	c.Count[SetAccess]++
	c.Micros += float64(handles) * cost.Micros(SetAccess, n)
}
