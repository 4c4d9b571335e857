// Package backup has the contents of blocks that sleep, on the host.
//
//	Save     blocks ──► pieces of host memory: on each of several threads filled, pinned, copied to
//	Restore  pieces ──► the blocks that still live
//	Drop     pieces ──► unpinned, and given back
//
// Memory of the host is not kept for the next time, though that would be faster: processes that are
// awake may need it (docs: decision 26).
package backup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"stalloc/actors/device"
	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/live/hostmem"
)

const pieceSize = 32 * mem.MiB

// Store makes and ends the copies of a device.
type Store struct {
	dev  device.Device
	log  *zap.Logger
	busy sync.WaitGroup // goroutines that drop copies

	mu      sync.Mutex
	dropped []*Copy // and not unpinned yet

	warnUnpinned sync.Once
}

// New makes a store without copies.
func New(dev device.Device, log *zap.Logger) *Store { return &Store{dev: dev, log: log} }

// Copy is the contents of some blocks. The zero value has none.
type Copy struct {
	blocks []engine.Block // whose contents it has, one behind the other
	size   mem.Bytes      // of all of them
	memory []byte         // of the host, not of Go; nil: nothing is kept
	pinned []bool         // its pieces
}

// Add adds a block, before Save.
func (x *Copy) Add(b engine.Block) {
	x.blocks = append(x.blocks, b)
	x.size += b.Size
}

// Kept returns how much is kept on the host.
func (x *Copy) Kept() mem.Bytes {
	if x.memory == nil {
		return 0
	}
	return x.size
}

func (x *Copy) piece(i int) []byte {
	at := mem.Bytes(i) * pieceSize
	return x.memory[at:min(at+pieceSize, mem.Bytes(len(x.memory)))]
}

// part is what of a block lies in a piece.
type part struct {
	at   mem.Addr
	host []byte
}

// parts cuts the blocks that are meant into pieces.
func (x *Copy) parts(meant func(engine.Block) bool) [][]part {
	cut, at := make([][]part, len(x.pinned)), mem.Bytes(0)
	for _, b := range x.blocks {
		for end := at + b.Size; at < end; {
			i := at / pieceSize
			n := min((i+1)*pieceSize, end) - at
			if meant(b) {
				cut[i] = append(cut[i], part{b.Addr + mem.Addr(b.Size-(end-at)),
					x.memory[at : at+n]})
			}
			at += n
		}
	}
	return cut
}

// Save copies the blocks of all copies to the host. Room for all is had before; with an error
// nothing is kept.
func (s *Store) Save(copies map[uint64]*Copy) error {
	sum := mem.Bytes(0)
	for _, x := range copies {
		sum += x.size
	}
	if sum == 0 {
		return nil
	}
	from, can := s.dev.(device.Copier)
	if !can {
		return fmt.Errorf("the contents of %s cannot be had; discard them", s.dev.Name())
	}
	s.Await()
	if err := s.Unpin(); err != nil {
		s.log.Warn("memory of the host is still pinned", zap.Error(err))
	}
	unlock := hostmem.Lock() // or several ranks would all find the same room
	defer unlock()
	if err := hostmem.Check(sum); err != nil {
		return err
	}
	for _, x := range copies {
		if err := s.save(from, x); err != nil {
			return errors.Join(err, s.Drop(copies))
		}
	}
	return nil
}

func (s *Store) save(from device.Copier, x *Copy) (err error) {
	if x.size == 0 {
		return nil
	}
	if x.memory, err = hostmem.Take(x.size); err != nil {
		return err
	}
	slices.SortFunc(x.blocks, func(a, b engine.Block) int { return cmp.Compare(a.Addr, b.Addr) })
	x.pinned = make([]bool, (x.size+pieceSize-1)/pieceSize)
	parts := x.parts(func(engine.Block) bool { return true })
	var unpinned atomic.Pointer[error]
	err = hostmem.Parallel(len(parts), func(i int) error {
		if err := hostmem.Fill(x.piece(i)); err != nil {
			return err
		}
		if err := from.Pin(x.piece(i)); err != nil {
			unpinned.Store(&err)
		} else {
			x.pinned[i] = true
		}
		for _, part := range parts[i] {
			if err := from.Read(part.host, part.at); err != nil {
				return err
			}
		}
		return nil
	})
	if why := unpinned.Load(); why != nil {
		s.warnUnpinned.Do(func() {
			s.log.Warn("memory of the host cannot be pinned; copies are slow", zap.Error(*why))
		})
	}
	return err
}

// Restore copies back what was kept of the blocks that still live.
func (s *Store) Restore(x *Copy, live func(engine.Block) bool) error {
	to, _ := s.dev.(device.Copier)
	parts := x.parts(live)
	return hostmem.Parallel(len(parts), func(i int) error {
		for _, part := range parts[i] {
			if err := to.Write(part.at, part.host); err != nil {
				return err
			}
		}
		return nil
	})
}

// Drop gives up what is kept on the host. What could not be unpinned stays, and is tried again
// later: the driver would go on to copy from and to its pages, whatever is at its address by then.
func (s *Store) Drop(copies map[uint64]*Copy) error {
	s.mu.Lock()
	for _, x := range copies {
		if x.memory != nil {
			s.dropped = append(s.dropped, &Copy{memory: x.memory, pinned: x.pinned, size: x.size})
			x.memory = nil
		}
	}
	s.mu.Unlock()
	return s.Unpin()
}

// DropBeside is Drop on a goroutine: unpinning takes as long as copying.
func (s *Store) DropBeside(copies map[uint64]*Copy) {
	s.busy.Go(func() {
		if err := s.Drop(copies); err != nil {
			s.log.Warn("memory of the host was not given back", zap.Error(err))
		}
	})
}

// Await waits until what DropBeside was told of is given back, as far as it can be.
func (s *Store) Await() { s.busy.Wait() }

// Unpin gives back what was dropped, piece by piece, and keeps what fails.
func (s *Store) Unpin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	s.dropped = slices.DeleteFunc(s.dropped, func(x *Copy) bool {
		failed := make([]error, len(x.pinned))
		_ = hostmem.Parallel(len(x.pinned), func(i int) error {
			if x.pinned[i] {
				failed[i] = s.dev.(device.Copier).Unpin(x.piece(i))
				x.pinned[i] = failed[i] != nil
			}
			return nil
		})
		err := errors.Join(failed...)
		if err == nil {
			err = hostmem.Give(x.memory)
		}
		errs = append(errs, err)
		return err == nil
	})
	return errors.Join(errs...)
}

// Dropped returns what could not be given back yet.
func (s *Store) Dropped() (n mem.Bytes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.dropped {
		n += x.Kept()
	}
	return n
}
