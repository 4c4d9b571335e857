// Package mem holds one type per quantity that the allocator counts, so that a
// size cannot be passed where a place is meant, and the few constants every
// floor agrees on.
package mem

import (
	"fmt"
	"math"
	"strconv"
)

// Bytes is a size or an amount of memory.
type Bytes int64

// Offset is a place: bytes from the start of an arena or of a view.
type Offset int64

// Addr is a device virtual address. Zero is no address.
type Addr uint64

// Tick is a place in the order of events. It has no relation to wall time.
type Tick int64

// StreamID names a CUDA stream within one device: the CUstream handle as an
// integer on a real device, the stream's number in a recorded trace. Zero is
// the default stream.
type StreamID uint64

const (
	// Grain is the unit every request is rounded up to, as in PyTorch.
	Grain Bytes = 512
	// HandleSize is the least size of a physical allocation, and the unit of all
	// others: the driver's granularity on every NVIDIA device we know of.
	HandleSize Bytes = 2 << 20

	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
)

// Round returns the size of the block that serves a request of n bytes: n up
// to a multiple of Grain, and at least one Grain.
func Round(n Bytes) Bytes {
	if n <= Grain {
		return Grain
	}
	return RoundUp(n, Grain)
}

// RoundUp returns n up to a multiple of unit, which must be a power of two.
func RoundUp(n, unit Bytes) Bytes { return (n + unit - 1) &^ (unit - 1) }

// Handles returns how many handles n bytes need.
func Handles(n Bytes) int64 { return int64((n + HandleSize - 1) / HandleSize) }

// printed are the units of String, the largest first.
var printed = [...]struct {
	size Bytes
	name string
}{{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}}

// String prints the amount in the largest binary unit that keeps it above one:
// "512 B", "1.50 GiB".
func (b Bytes) String() string {
	for _, u := range printed {
		if max(b, -b) >= u.size {
			return fmt.Sprintf("%.2f %s", float64(b)/float64(u.size), u.name)
		}
	}
	return strconv.FormatInt(int64(b), 10) + " B"
}

// Up is the least amount that String prints exactly and that is no less: of what suffices, so that
// what is printed does.
func (b Bytes) Up() Bytes {
	for _, u := range printed {
		if b >= u.size {
			hundredths := math.Ceil(100 * float64(b) / float64(u.size))
			return Bytes(hundredths / 100 * float64(u.size)) // as ParseBytes reads it
		}
	}
	return b
}
