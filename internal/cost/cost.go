// Package cost is what driver calls that manage memory take: medians measured on
// an H100 80GB with driver 580 and CUDA 13.0. The simulated device and the
// simulated allocators charge these; other devices differ, the ratios less so.
package cost

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

// sizes are those at which calls were timed. Between them the cost is linear in
// the size, below the first it is the first, above the last it grows as in the
// last interval.
var sizes = [...]mem.Bytes{2 * mem.MiB, 20 * mem.MiB, 64 * mem.MiB, 512 * mem.MiB, 4 * mem.GiB}

// costs of the two reservation calls do not depend on the size: reserving
// 1 TiB took 14 µs. Returning addresses was not timed; the same is assumed.
var costs = [CallKinds][len(sizes)]float64{
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

// InRange is what access rights cost more, in µs a handle, where one call sets
// those of several handles: 27 µs each were measured at 2 MiB.
const InRange = 3.4

// Micros is the modelled time, in µs, of one call over n bytes. Access rights and
// unmapping are paid for every handle, even in one call over many: n is then the
// size of one.
func Micros(k Call, n mem.Bytes) float64 {
	at := &costs[k]
	if n <= sizes[0] {
		return at[0]
	}
	i := 1
	for i < len(sizes)-1 && n > sizes[i] {
		i++
	}
	share := float64(n-sizes[i-1]) / float64(sizes[i]-sizes[i-1])
	return at[i-1] + share*(at[i]-at[i-1])
}
