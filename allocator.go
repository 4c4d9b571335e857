package stalloc

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"stalloc/actors"
	"stalloc/plan"
)

// Allocator serves the memory of one device. Its methods may be called from any
// goroutine. After Close they return ErrClosed.
type Allocator struct {
	local    *actors.Local
	device   Device
	requests atomic.Uint64

	// Held for reading by every call that is under way: Close waits for them,
	// because a message to an actor that is gone is never answered.
	life   sync.RWMutex
	closed bool
}

// enter begins a call; leave ends it, if enter returned nil.
func (a *Allocator) enter() error {
	a.life.RLock()
	if a.closed {
		a.life.RUnlock()
		return ErrClosed
	}
	return nil
}

func (a *Allocator) leave() { a.life.RUnlock() }

// Malloc returns the address of a block of at least size bytes, aligned to 512,
// for work on a stream. Its contents are whatever was there before. A size of zero
// gives the address zero, which Free accepts. ErrOutOfMemory: the device is full;
// the error's text explains by what.
func (a *Allocator) Malloc(stream Stream, size Bytes) (Addr, error) {
	return a.malloc(stream, 0, size)
}

func (a *Allocator) malloc(stream Stream, pool uint64, size Bytes) (Addr, error) {
	if size < 0 {
		return 0, fmt.Errorf("stalloc: a block of %d bytes was asked for: expected none below zero",
			int64(size))
	}
	if err := a.enter(); err != nil {
		return 0, err
	}
	defer a.leave()
	a.requests.Add(1)
	addr, err := a.local.MallocIn(stream, pool, size)
	if err != nil {
		return 0, fmt.Errorf("stalloc: %v on stream %#x: %w", size, uint64(stream), err)
	}
	return addr, nil
}

// Free gives a block back. All work that uses it must have been submitted, to its
// own stream or to one named with Record; it need not have run. Address zero is
// accepted and does nothing. ErrUnknown: there is no live block at addr, as after
// an earlier Free; nothing has changed.
func (a *Allocator) Free(addr Addr) error {
	if err := a.enter(); err != nil {
		return err
	}
	defer a.leave()
	if err := a.local.Release(addr); err != nil {
		return fmt.Errorf("stalloc: %w", err)
	}
	return nil
}

// Record says that work on another stream uses the block at addr, too: once freed
// it is handed out again only when that stream has done all work submitted to it
// by then. The block's own stream may be named and
// changes nothing. ErrUnknown: there is no live block at addr.
func (a *Allocator) Record(addr Addr, stream Stream) error {
	if err := a.enter(); err != nil {
		return err
	}
	defer a.leave()
	if err := a.local.Record(addr, stream); err != nil {
		return fmt.Errorf("stalloc: use of %#x on stream %#x: %w", uint64(addr), uint64(stream),
			err)
	}
	return nil
}

// LastingStream says that a stream is there as long as the program, as the default stream is: what
// is free of its memory may serve other streams, once the driver says that the work on it is done.
func (a *Allocator) LastingStream(stream Stream) error {
	return a.tell(func() error { a.local.PersistentStream(stream); return nil })
}

// Share lets another GPU of this process, by its ordinal, use this one's memory: for
// copies between the two, and for kernels that read across. It covers blocks that are
// live now and those to come. The error says if the other one cannot reach it.
func (a *Allocator) Share(ordinal int) error {
	return a.tell(func() error { return a.local.Share(ordinal) })
}

// Step is a step boundary: the place from which on the requests of the last step
// are expected again. Plans that are ready become active here. What Step does
// depends on what has changed; in a steady state it makes no driver call.
func (a *Allocator) Step() error {
	return a.tell(a.local.Step)
}

// tell has the allocator do something that has no result.
func (a *Allocator) tell(what func() error) error {
	if err := a.enter(); err != nil {
		return err
	}
	defer a.leave()
	if err := what(); err != nil {
		return fmt.Errorf("stalloc: %w", err)
	}
	return nil
}

// Trim gives physical memory that no block uses back to the driver. Other
// programs may want it; this one has to take it anew, at a cost.
func (a *Allocator) Trim() error {
	return a.tell(func() error { return a.local.Trim(0) })
}

// SetMemoryFraction bounds what is taken from now on to a part of the device's memory, from
// 0, where no more is, to 1, which is no bound. What is taken already is not given back.
func (a *Allocator) SetMemoryFraction(fraction float64) error {
	return a.tell(func() error { return a.local.Limit(fraction) })
}

// ErrNoPlan says that there is no plan to save, yet.
var ErrNoPlan = errors.New("no step has been planned yet; save after some that repeat")

// Save writes the latest plan to a file, for Options.PlanFile of a later run. A
// reader, or a crash, meets the old file or the new one, never a part; several
// processes may write the same file. ErrNoPlan: there is none to write.
func (a *Allocator) Save(path string) error {
	return a.tell(func() error {
		p := a.local.Plan()
		if p == nil {
			return fmt.Errorf("%s is not written: %w", path, ErrNoPlan)
		}
		return plan.WriteFile(path, p)
	})
}

// Explain says in a few lines where the device's memory is and what to try when
// there is not enough. It is part of the text of every ErrOutOfMemory.
func (a *Allocator) Explain() string {
	if err := a.enter(); err != nil {
		return err.Error()
	}
	defer a.leave()
	return a.local.Explain()
}

// Check recounts everything the allocator knows about its memory and returns what
// does not add up, which would be a bug of this package. It takes time in
// proportion to what is live and is meant for tests.
func (a *Allocator) Check() error {
	if err := a.enter(); err != nil {
		return err
	}
	defer a.leave()
	return a.local.Check()
}

// Name is the device's name, such as "NVIDIA H100 80GB HBM3".
func (a *Allocator) Name() string { return a.device.Name() }

// Close waits for a plan in the making, gives all memory back to the driver, that of live blocks
// included, and closes the device. No work that uses any of it may be pending on any stream. It
// waits for calls that are under way. A second Close does nothing.
func (a *Allocator) Close() error {
	a.life.Lock()
	defer a.life.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	if err := a.local.Close(); err != nil {
		return fmt.Errorf("stalloc: closing %s: %w", a.device.Name(), err)
	}
	return nil
}
