// Package stalloc allocates GPU memory for programs that repeat their work, such as training loops,
// and reserves hardly more than the blocks need. A stream's memory is one contiguous range: a
// request gets the smallest gap that fits; if none fits, free physical pages are stitched for it.
// Once a step has repeated, request for request, later ones are served from a plan. Plans buy time:
// a planned request needs no search for a gap and no driver call. The memory that is needed is
// nearly the same with and without them. PyTorch users want the Python package of the same name;
// this package embeds the same engine in a Go program.
//
//	gpu, err := stalloc.Open(stalloc.Options{}) // the first GPU
//	if err != nil {
//		return err
//	}
//	defer gpu.Close()
//	for range steps {
//		x, err := gpu.Malloc(stream, 64*stalloc.MiB)
//		...                      // launch work on stream that uses x
//		err = gpu.Free(x)        // may come before that work has run
//		err = gpu.Step()
//	}
//
// # Streams
//
// Memory is allocated for work on one CUDA stream. A freed block may serve the next request on its
// own stream at once, because a stream does its work in order, but no other stream. So free a block
// as soon as all work that uses it has been submitted to its stream. If another stream uses it,
// too, name that stream with Record before the free: the block is then reused only after that
// stream has passed the point of the free. A stream is named by its CUstream handle as a number; 0
// is the default stream.
//
// # Steps
//
// Call Step where the work begins to repeat, once per training iteration, when as few blocks as
// possible are live. Without it nothing is planned: an implicit step then ends every 131,072
// requests and frees, for what the pool learns of steps. Plans are made in the background and
// become active only at a step boundary; blocks never move.
//
// # Threads and errors
//
// All methods may be called from any goroutine at any time. A request served from
// the plan takes a lock of its stream and nothing else. Errors are matched with
// errors.Is against ErrOutOfMemory, ErrUnknown, ErrAsleep and ErrClosed; a failed driver call is a
// *DriverError. A failed call changes nothing: in particular a second free of a block is reported
// and ignored, until its address is allocated again.
//
// # Without a GPU
//
// Options.Simulated opens a simulated device without memory, for tests and for sizing;
// Options.Device takes any implementation of Device, also one that is wrapped, as by the fault
// injector of package stalloc/actors/device/devicetest.
package stalloc

import (
	"errors"

	"stalloc/actors"
	"stalloc/actors/device"
	"stalloc/internal/driver"
	"stalloc/internal/explain"
	"stalloc/internal/mem"
)

// The words that this package shares with those it is made of. The aliases let a
// program name them, and implement Device, without importing anything else.
type (
	// Bytes is a size or an amount of memory.
	Bytes = mem.Bytes
	// Addr is a device virtual address; zero is none. Blocks are aligned to 512
	// bytes.
	Addr = mem.Addr
	// Stream is a CUstream as a number; zero is the default stream.
	Stream = mem.StreamID
	// Device is the memory of one GPU as a driver offers it.
	Device = device.Device
	// Handle names a physical allocation of a Device, of one or more times
	// HandleSize bytes.
	Handle = driver.Handle
	// Fence names a point on a stream of a Device.
	Fence = driver.Fence
	// Shared names the memory of a handle to other processes.
	Shared = driver.Shared
	// Holder is a process that holds memory of a device.
	Holder = explain.Holder
	// DriverError is a driver call that failed: which, and with what code.
	DriverError = driver.Error
)

// Units of memory, and the least size of a physical allocation.
const (
	KiB        = mem.KiB
	MiB        = mem.MiB
	GiB        = mem.GiB
	TiB        = mem.TiB
	HandleSize = mem.HandleSize
)

var (
	// ErrOutOfMemory says that the device is full, or Options.Limit reached, after
	// everything idle was given back. The error's text explains where the memory
	// is. Freeing blocks helps.
	ErrOutOfMemory = driver.ErrOutOfMemory
	// ErrUnknown says that an address is not the start of a live block: it never
	// was one, or it was freed.
	ErrUnknown = actors.ErrUnknown
	// ErrClosed says that the allocator was closed.
	ErrClosed = errors.New("the allocator is closed")
)
