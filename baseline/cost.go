package baseline

import "stalloc/internal/mem"

// Call is a kind of driver call that manages memory.
type Call uint8

const (
	MemAlloc    Call = iota // cuMemAlloc, for cudaMalloc
	MemFree                 // cuMemFree, for cudaFree
	Reserve                 // cuMemAddressReserve
	AddressFree             // cuMemAddressFree
	Create                  // cuMemCreate
	Release                 // cuMemRelease
	Map                     // cuMemMap
	Unmap                   // cuMemUnmap
	SetAccess               // cuMemSetAccess
	CallKinds
)

func (k Call) String() string {
	if k >= CallKinds {
		return "unknown call"
	}
	return [...]string{
		"cuMemAlloc", "cuMemFree", "cuMemAddressReserve", "cuMemAddressFree",
		"cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap", "cuMemSetAccess",
	}[k]
}

// Calls counts driver calls, failed ones included, and the time they would
// take on the device the costs were measured on.
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

// costSizes are the sizes at which calls were timed, on an H100 80GB with driver
// 580 (medians, µs). Between them the cost is linear in the size, below the
// first it is the first, above the last it grows as in the last interval.
var costSizes = [...]mem.Bytes{2 * mem.MiB, 20 * mem.MiB, 64 * mem.MiB, 512 * mem.MiB, 4 * mem.GiB}

// costs of the two reservation calls do not depend on the size: reserving
// 1 TiB took 14 µs. Returning addresses was not timed; the same is assumed.
var costs = [CallKinds][len(costSizes)]float64{
	MemAlloc:    {37, 38, 42, 71, 285},
	MemFree:     {32, 43, 53, 197, 1994},
	Reserve:     {14, 14, 14, 14, 14},
	AddressFree: {14, 14, 14, 14, 14},
	Create:      {9.3, 9.3, 9.4, 18, 74},
	Release:     {11, 21, 30, 163, 1416},
	Map:         {0.8, 0.8, 0.8, 1.1, 3.7},
	Unmap:       {16.5, 16.4, 16.4, 24, 67},
	SetAccess:   {23.6, 23.1, 23.3, 46, 189},
}

// Cost is the modelled time, in µs, of one call over n bytes.
func Cost(k Call, n mem.Bytes) float64 {
	at := &costs[k]
	if n <= costSizes[0] {
		return at[0]
	}
	i := 1
	for i < len(costSizes)-1 && n > costSizes[i] {
		i++
	}
	share := float64(n-costSizes[i-1]) / float64(costSizes[i]-costSizes[i-1])
	return at[i-1] + share*(at[i]-at[i-1])
}

// add counts calls of one kind, each over n bytes.
func (c *Calls) add(k Call, n mem.Bytes, calls int64) {
	c.Count[k] += calls
	c.Micros += float64(calls) * Cost(k, n)
}

// access counts one cuMemSetAccess over a range of handles of n bytes each. The
// driver takes its time for every handle, even in a single call.
func (c *Calls) access(n mem.Bytes, handles int64) {
	c.Count[SetAccess]++
	c.Micros += float64(handles) * Cost(SetAccess, n)
}
