// Package device is the seam between the allocator and the memory of one GPU: the few driver calls
// that the allocator makes.
//
// The idea: physical memory comes in handles, each of one or more times mem.HandleSize, addresses
// come from reservations, and the two are joined and parted at will (Map, Unmap). A handle keeps
// its contents meanwhile, and may be mapped at two places at once.
//
// Invariants that every implementation holds, and that package devicetest checks:
//   - a handle is mapped whole, at a multiple of mem.HandleSize, inside one
//     reservation, where nothing else is mapped, and is unmapped whole;
//   - a range is usable only after Access, and loses that with Unmap;
//   - a reservation is given back whole, as it was made;
//   - a fence that Done reported as passed is gone.
//
// The device does not wait for the work that uses a range before it unmaps it:
// that is the caller's duty, with Record, Done and Sync.
package device

import (
	"errors"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Sharer is a Device whose memory other devices of the process may use.
type Sharer interface {
	// EnablePeers lets the devices of these ordinals use what Access is called for
	// from now on, in place of earlier peers. If one cannot, nothing changes. It
	// must not run beside Access.
	EnablePeers(ordinals ...int) error
}

// Copier is a Device whose memory has contents that the host can have. Read and Write wait for the
// copy, which may begin and end anywhere in memory that is mapped and accessible.
type Copier interface {
	Read(to []byte, from mem.Addr) error
	Write(to mem.Addr, from []byte) error
	// Pin makes copies to and from memory of the host run at the full speed of the link, until
	// Unpin of just this memory: whole pages that do not belong to Go.
	Pin(memory []byte) error
	Unpin(memory []byte) error
}

// Mover is a Device that copies behind work, without a wait.
type Mover interface {
	// NewStream makes a stream that waits for no other of itself; DropStream gives it back, once
	// its work is done.
	NewStream() (mem.StreamID, error)
	DropStream(mem.StreamID) error
	// CopyOut and CopyBack copy behind the work on a stream. Memory of the host stays until
	// the stream has passed them; where it is not pinned, they wait after all.
	CopyOut(to []byte, from mem.Addr, on mem.StreamID) error
	CopyBack(to mem.Addr, from []byte, on mem.StreamID) error
	// Await makes work that a stream gets from now on wait for a fence. One that is gone has
	// passed.
	Await(mem.StreamID, driver.Fence) error
}

// Exporter is a Device whose handles other processes can map, and that can map theirs.
type Exporter interface {
	// Export names the handle's memory. A file descriptor is open until Release.
	Export(h driver.Handle) (driver.Shared, error)
	// MapShared is Map of memory that was exported, of all of its size bytes, which live as long as
	// they are mapped. A file descriptor must be one of this process, and stays open.
	MapShared(addr mem.Addr, s driver.Shared, size mem.Bytes) error
}

// ErrAlone says that a device knows of no others.
var ErrAlone = errors.New("the device knows of no others that it could share its memory with")

// Device is the memory of one GPU. Implementations are safe for use from
// several threads, but for package sleeper's. Errors of the driver are *driver.Error; a full device
// matches driver.ErrOutOfMemory.
type Device interface {
	// Reserve takes size bytes of address space, aligned to mem.HandleSize.
	// No memory is behind it. The size must be a multiple of mem.HandleSize.
	Reserve(size mem.Bytes) (mem.Addr, error)
	// Unreserve gives back a whole reservation, in which nothing is mapped.
	Unreserve(addr mem.Addr, size mem.Bytes) error
	// Create takes one physical handle of size bytes, a positive multiple of
	// mem.HandleSize.
	Create(size mem.Bytes) (driver.Handle, error)
	// Release gives a handle up. While it is still mapped its memory stays.
	Release(h driver.Handle) error
	// Map puts the whole handle, all of its bytes, at addr, a multiple of
	// mem.HandleSize whatever the handle's size. The same handle may be mapped
	// at several addresses at once.
	Map(addr mem.Addr, h driver.Handle) error
	// Access grants read and write on a range, which consists of whole mappings,
	// to this device, and to its peers where they are enabled.
	Access(addr mem.Addr, size mem.Bytes) error
	// Unmap parts the range, which consists of whole mappings, from its
	// handles: none is split. No pending work may use it.
	Unmap(addr mem.Addr, size mem.Bytes) error
	// Record puts an event after the work pending on the stream, which must not have been
	// destroyed: the driver takes its handle for what lies there now.
	Record(stream mem.StreamID) (driver.Fence, error)
	// Done reports whether the stream has passed the fence. If so the fence
	// is gone and must not be asked about again.
	Done(f driver.Fence) (bool, error)
	// Sync waits for all work on the device, on whatever stream. It must not be called while
	// one is being captured into a graph: that would end the capture.
	Sync() error
	// Memory returns the device's free and total physical memory.
	Memory() (free, total mem.Bytes, err error)
	// Name is the device's name, such as "NVIDIA H100 80GB HBM3".
	Name() string
	// Close gives the device up. What was leaked is reported as an error
	// where the implementation can know it.
	Close() error
}
