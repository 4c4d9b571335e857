package stalloc

import (
	"fmt"

	"stalloc/actors/device/sleeper"
)

// Exported is a handle of a block that other processes can map: Number, of no other handle ever;
// Size in bytes; and Shared, which names its memory: FD, a file descriptor of this process, or
// Fabric, 64 bytes for every host of a fabric, where FD is -1.
type Exported = sleeper.Exported

// Sharing says whether memory is made so that other processes can be given it, and how.
type Sharing uint8

const (
	// ShareOff makes memory for this process alone.
	ShareOff Sharing = iota
	// ShareFD has file descriptors, for processes of the same host.
	ShareFD
	// ShareFabric has names for every host of a fabric, which wants NVIDIA's IMEX daemon.
	ShareFabric
)

// Export lets other processes map the handles that the live block containing addr lies in, one
// after the other: the block's bytes from addr on begin offset bytes behind where the first is
// mapped. Until the block is freed they do not sleep, and their file descriptors stay open until
// their memory goes back to the driver; send them over a Unix socket (syscall.UnixRights). Keep the
// block while another process uses it: its memory stays, but its bytes will be another block's.
// ErrUnknown: there is no live block; ErrAsleep: it sleeps. On a GPU it takes Options.Share.
func (a *Allocator) Export(addr Addr) (offset Bytes, handles []Exported, err error) {
	err = a.tell(func() (err error) {
		offset, handles, err = a.local.Export(addr)
		return err
	})
	return offset, handles, err
}

// Import maps the handles that Export of another process returned, on the exporter's GPU, and
// returns where. Their file descriptors must be this process's, as received, and may be closed
// then. The memory lives until EndImport, whatever becomes of the exporter, does not sleep, and is
// in no statistics of this allocator.
func (a *Allocator) Import(handles []Exported) (at Addr, err error) {
	err = a.tell(func() (err error) {
		at, err = a.local.Import(handles)
		return err
	})
	return at, err
}

// EndImport unmaps what Import has mapped at an address. No work that uses it may be pending.
// ErrUnknown: nothing is imported there. Close does it for what is left.
func (a *Allocator) EndImport(at Addr) error {
	return a.tell(func() error {
		if err := a.local.EndImport(at); err != nil {
			return fmt.Errorf("the end of an import at %#x: %w", uint64(at), err)
		}
		return nil
	})
}
