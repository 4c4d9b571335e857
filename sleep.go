package stalloc

import (
	"fmt"

	"stalloc/actors"
	"stalloc/actors/pool"
	"stalloc/actors/region"
)

// Backup says what becomes of the contents of memory that sleeps.
type Backup uint8

const (
	// BackupHost copies live blocks to the host, and back when they wake.
	BackupHost Backup = iota
	// BackupDiscard loses what they hold: weights that are loaded anew, gradients.
	BackupDiscard
)

var (
	// ErrAsleep says that memory of this kind sleeps: call Resume first.
	ErrAsleep = actors.ErrAsleep
	// ErrNoRegion says that no region has this name.
	ErrNoRegion = actors.ErrNoRegion
)

// MallocIn is Malloc of a region: memory under a name, which Pause and Resume take. It shares no
// handle with the rest, so that either can sleep alone, and is not planned. Names are the
// process's.
func (a *Allocator) MallocIn(tag string, stream Stream, size Bytes) (Addr, error) {
	region, err := region.Number(tag)
	if err != nil {
		return 0, fmt.Errorf("stalloc: %w", err)
	}
	return a.malloc(stream, region, size)
}

// Pause has memory sleep: of the named regions or, with none named, all. It waits for all work on
// the device, copies live blocks to the host if backup says so, gives the memory back to the driver
// and keeps every address. Until Resume no work may use them, requests get ErrAsleep, and frees are
// taken in. With an error nothing has changed, unless its text says that the memory sleeps: the
// driver has not taken all of it back, and Pause tries that again.
func (a *Allocator) Pause(backup Backup, tags ...string) error {
	if backup > BackupDiscard {
		return fmt.Errorf("stalloc: the backup is %d: expected BackupHost or BackupDiscard", backup)
	}
	return a.ofRegions(tags, func(pools []uint64) error {
		return a.local.Pause(pools, backup == BackupHost)
	})
}

// Resume wakes what sleeps, of the named regions or, with none named, all: at the same addresses,
// with what was copied to the host. With an error, such as ErrOutOfMemory, it sleeps on and nothing
// is lost.
func (a *Allocator) Resume(tags ...string) error { return a.ofRegions(tags, a.local.Resume) }

// BeginAwake says that work given to a stream from now on uses a region, and brings back what of it
// is away: the stream waits for the copies, the caller for memory alone. Work of other streams on
// older blocks must wait for that stream; the stream of a block that MallocIn returns later waits
// by itself. With an error, such as ErrOutOfMemory, the region is not in use, and nothing is lost.
// Uses nest.
func (a *Allocator) BeginAwake(tag string, stream Stream) error {
	return a.ofRegions([]string{tag}, func(pools []uint64) error {
		return a.local.BeginAwake(pools[0], stream)
	})
}

// EndAwake says that no work given to streams from now on uses a region until BeginAwake; work on
// stream was the last that did. As much of it as others are short of leaves for the host meanwhile,
// over a stream of its own. Unless the work has changed its contents, nothing is copied out again.
func (a *Allocator) EndAwake(tag string, stream Stream, changed bool) error {
	return a.ofRegions([]string{tag}, func(pools []uint64) error {
		return a.local.EndAwake(pools[0], stream, pool.Closing{Changed: changed})
	})
}

// Prefetch begins to bring back what of a region is away, as far as there is room for it.
func (a *Allocator) Prefetch(tag string) error {
	return a.ofRegions([]string{tag}, func(pools []uint64) error {
		return a.local.Prefetch(pools[0])
	})
}

func (a *Allocator) ofRegions(tags []string, what func([]uint64) error) error {
	pools, err := region.Numbers(tags)
	if err != nil {
		return fmt.Errorf("stalloc: %w", err)
	}
	return a.tell(func() error { return what(pools) })
}
