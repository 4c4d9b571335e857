package baseline

import (
	"errors"
	"fmt"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Allocator is what the simulators have in common. None of them is safe for
// use by several goroutines.
type Allocator interface {
	// Malloc serves a request of size bytes on a stream. It returns None and
	// touches nothing if size is 0, and an *OutOfMemory if the device is full.
	Malloc(size mem.Bytes, stream mem.StreamID) (Block, error)
	// Free asks for the block's memory back. A block with recorded streams, or
	// a deferred one, waits.
	Free(b Block) error
	// RecordStream says that work on stream s uses the live block too.
	RecordStream(b Block, s mem.StreamID) error
	// Defer makes the live block wait for Complete after its Free, on no
	// stream in particular: for recorded runs, which say how long a free took
	// and not which streams it waited for.
	Defer(b Block) error
	// Complete says that all the work the freed block waits for has passed,
	// and with it everything queued earlier on the same streams. The next
	// Malloc notices.
	Complete(b Block) error
	// Synchronize says that all work queued so far has passed. The next Malloc
	// notices.
	Synchronize()
	// EmptyCache waits for all work and returns what is wholly free to the
	// driver.
	EmptyCache()
	// Addr says where a live or waiting block lies.
	Addr(b Block) (Place, error)
	Stats() Stats
	Calls() Calls
	// Check recounts the whole state and reports the first invariant that does
	// not hold.
	Check() error
	// Name is the name New knows the allocator by.
	Name() string
}

var (
	// ErrOutOfMemory is matched, by errors.Is, by what a failed Malloc returns.
	ErrOutOfMemory = driver.ErrOutOfMemory
	// ErrUnknownBlock is returned for a handle whose block is gone, was never
	// handed out, or was freed already.
	ErrUnknownBlock = errors.New("no such live block (freed already, or from another allocator)")
	// ErrNotFreed is returned by Complete for a block that is still live.
	ErrNotFreed = errors.New("the block has not been freed: free it before its events complete")
)

// OutOfMemory says what was asked for and how the device stood.
type OutOfMemory struct {
	Asked               mem.Bytes
	Stream              mem.StreamID
	Allocated, Reserved mem.Bytes
	Capacity, Fraction  mem.Bytes // Fraction is Options.Limit
}

func (e *OutOfMemory) Error() string {
	limit := e.Capacity
	if e.Fraction != 0 && e.Fraction < limit {
		limit = e.Fraction
	}
	return fmt.Sprintf("baseline: out of memory: %v (%d bytes) asked for on stream %d, %v allocated, %v reserved of %v",
		e.Asked, int64(e.Asked), uint64(e.Stream), e.Allocated, e.Reserved, limit)
}

// Is makes every OutOfMemory match ErrOutOfMemory.
func (e *OutOfMemory) Is(target error) bool { return target == ErrOutOfMemory }

// Stats are PyTorch's memory statistics, the sum over both pools, in bytes and
// counts. A peak is that of its own statistic alone.
type Stats struct {
	Allocated mem.Bytes // sizes of the live blocks
	Active    mem.Bytes // the same and the waiting blocks
	Requested mem.Bytes // what was asked for, of live and waiting blocks
	Reserved  mem.Bytes // taken from the driver

	PeakAllocated, PeakActive, PeakRequested, PeakReserved mem.Bytes

	Segments           int64 // cudaMalloc'ed
	InactiveSplit      int64 // free blocks that are part of a segment
	InactiveSplitBytes mem.Bytes
	Retries            int64 // flushes because the device was full
	OOMs               int64
}

func raise(peak *mem.Bytes, now mem.Bytes) {
	if now > *peak {
		*peak = now
	}
}

// grew accounts for memory taken from the driver.
func (s *Stats) grew(n mem.Bytes) {
	s.Reserved += n
	raise(&s.PeakReserved, s.Reserved)
}
