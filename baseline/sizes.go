package baseline

import (
	"math/bits"

	"stalloc/internal/mem"
)

// PyTorch's constants; see kSmallSize and its neighbours in
// c10/cuda/CUDACachingAllocator.cpp.
const (
	smallSize     = 1 * mem.MiB  // rounded sizes up to this belong to the small pool
	smallBuffer   = 2 * mem.MiB  // segment, and page, of the small pool
	minLargeAlloc = 10 * mem.MiB // from this rounded size on, a segment of its own
	largeBuffer   = 20 * mem.MiB // segment for what is smaller, and page, of the large pool
	roundLarge    = 2 * mem.MiB  // segments of their own are multiples of this

	unlimited mem.Bytes = 1<<63 - 1
	// maxRequest bounds what Malloc accepts, so that no sum of sizes overflows.
	maxRequest mem.Bytes = 1 << 50
)

type poolID uint8

const (
	smallPool poolID = iota
	largePool
	pools
)

// request is one Malloc on its way through the machine.
type request struct {
	asked   mem.Bytes // r, as the caller said it
	n       mem.Bytes // rounded
	segment mem.Bytes // size of a segment made for it
	pool    poolID
	stream  int32 // interned
}

// roundSize is PyTorch's round_size: up to 512 bytes, or to a fraction of the
// power of two below where Roundup asks for it.
func (o *Options) roundSize(r mem.Bytes) mem.Bytes {
	if r < mem.Grain {
		return mem.Grain
	}
	d := o.divisions(r)
	if d > 1 && r > mem.Grain*d {
		return roundToDivision(r, d)
	}
	return mem.RoundUp(r, mem.Grain)
}

func (o *Options) divisions(r mem.Bytes) mem.Bytes {
	bin := bits.Len64(uint64(r)) - bits.Len64(uint64(mem.MiB))
	return mem.Bytes(o.Roundup[min(max(bin, 0), len(o.Roundup)-1)])
}

// roundToDivision rounds r up to the next of the d even steps between the power
// of two below it and the one above. r > 512·d keeps a step at 512 or more.
func roundToDivision(r, d mem.Bytes) mem.Bytes {
	floor := mem.Bytes(1) << (bits.Len64(uint64(r)) - 1)
	return mem.RoundUp(r, floor/d)
}

// segmentSize is PyTorch's get_allocation_size.
func segmentSize(n mem.Bytes) mem.Bytes {
	switch {
	case n <= smallSize:
		return smallBuffer
	case n < minLargeAlloc:
		return largeBuffer
	}
	return mem.RoundUp(n, roundLarge)
}

func poolOf(n mem.Bytes) poolID {
	if n <= smallSize {
		return smallPool
	}
	return largePool
}
