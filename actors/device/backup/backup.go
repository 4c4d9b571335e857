// Package backup keeps contents of device memory on the host, in pieces of pinned memory. Here
// blocks that sleep are copied; package away makes pieces, too, and copies regions while the
// program runs.
//
//	Save     blocks ──► pieces: made, pinned and filled by several threads
//	Restore  pieces ──► the blocks that still live, once there is memory for them
//	Keep     pieces ──► spare: the next Save takes them as they are
//	Drop     pieces ──► unpinned, and given back
//
// Making and pinning a piece takes several times as long as a copy to it. But an awake program may
// need the host's memory, too: spare pieces are kept while half of it is free (docs: decision 26).
package backup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.uber.org/zap"

	"stalloc/actors/device"
	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/live/hostmem"
)

const pieceSize = 32 * mem.MiB

// Store makes the pieces of a device, and gives them back.
type Store struct {
	dev  device.Device
	log  *zap.Logger
	busy sync.WaitGroup // goroutines that keep pieces or give them back
	host host

	mu    sync.Mutex
	stuck []*Piece // that could not be unpinned yet
	spare []*Piece // pinned, of pieceSize
	ended bool     // no piece is kept any more

	warnUnpinned sync.Once
}

// New makes a store without pieces.
func New(dev device.Device, log *zap.Logger) *Store {
	return &Store{dev: dev, log: log, host: host{hostmem.Check, hostmem.Room, hostmem.Ample}}
}

// host says what memory it has: see hostmem.
type host struct {
	check func(mem.Bytes) error
	room  func(mem.Bytes) (mem.Bytes, error)
	ample func() bool
}

// Copy is the contents of some blocks. The zero value has none.
type Copy struct {
	blocks []engine.Block // whose contents it has, one behind the other
	size   mem.Bytes      // of all of them
	pieces []*Piece       // of pieceSize but for the last; none: nothing is kept
}

// Add adds a block, before Save.
func (x *Copy) Add(b engine.Block) {
	x.blocks = append(x.blocks, b)
	x.size += b.Size
}

// Kept returns how much is kept on the host.
func (x *Copy) Kept() mem.Bytes {
	if len(x.pieces) == 0 {
		return 0
	}
	return x.size
}

// part is the part of a block that lies in one piece.
type part struct {
	addr mem.Addr
	at   mem.Bytes // in the piece
	size mem.Bytes
}

func (p *part) of(x *Piece) []byte { return x.Memory[p.at : p.at+p.size] }

// parts returns for each piece what lies in it of the blocks that are meant.
func (x *Copy) parts(meant func(engine.Block) bool) [][]part {
	cut, at := make([][]part, (x.size+pieceSize-1)/pieceSize), mem.Bytes(0)
	for _, b := range x.blocks {
		for end := at + b.Size; at < end; {
			i := at / pieceSize
			n := min((i+1)*pieceSize, end) - at
			if meant(b) {
				cut[i] = append(cut[i], part{b.Addr + mem.Addr(b.Size-(end-at)), at % pieceSize, n})
			}
			at += n
		}
	}
	return cut
}

// Save copies the blocks of all copies to the host, if it has room for all; with an error nothing
// is kept.
func (s *Store) Save(copies map[uint64]*Copy) error {
	sum, whole := mem.Bytes(0), mem.Bytes(0)
	for _, x := range copies {
		sum += x.size
		whole += x.size / pieceSize * pieceSize
	}
	if sum == 0 {
		return nil
	}
	from, can := s.dev.(device.Copier)
	if !can {
		return fmt.Errorf("memory of %s cannot be copied to the host; pause it with backup discard", s.dev.Name())
	}
	s.Await()
	if err := s.Give(); err != nil {
		s.log.Warn("memory of the host is still pinned", zap.Error(err))
	}
	unlock := hostmem.Lock() // or several ranks would all find the same room
	defer unlock()
	err := s.host.check(sum - min(whole, s.Spare()))
	if err != nil && s.Spare() > whole { // pieces that no copy can use make way
		_ = s.Bound(whole) // what stays pinned is not free
		err = s.host.check(sum - s.Spare())
	}
	if err != nil {
		return err
	}
	for _, x := range copies {
		if err := s.save(from, x); err != nil {
			return errors.Join(err, s.Drop(copies))
		}
	}
	return nil
}

func (s *Store) save(from device.Copier, x *Copy) error {
	slices.SortFunc(x.blocks, func(a, b engine.Block) int { return cmp.Compare(a.Addr, b.Addr) })
	parts := x.parts(func(engine.Block) bool { return true })
	x.pieces = make([]*Piece, len(parts))
	return hostmem.Parallel(len(parts), func(i int) error {
		piece, err := s.obtain(min(pieceSize, x.size-mem.Bytes(i)*pieceSize))
		if piece == nil {
			return err
		}
		if x.pieces[i] = piece; err != nil {
			s.warnUnpinned.Do(func() {
				s.log.Warn("memory of the host cannot be pinned; copies are slow", zap.Error(err))
			})
		}
		for _, p := range parts[i] {
			if err := from.Read(p.of(piece), p.addr); err != nil {
				return err
			}
		}
		return nil
	})
}

// Return copies pieces back, in the order of addresses.
type Return struct {
	to   device.Copier
	left []kept // not begun yet, by end
}

// kept is a piece with the parts of it that are copied back, all to memory before end.
type kept struct {
	in    *Piece
	parts []part
	end   mem.Addr
}

// Restore prepares to copy back the blocks that still live, of each pool.
func (s *Store) Restore(copies map[uint64]*Copy, live func(uint64, engine.Block) bool) *Return {
	r := &Return{}
	r.to, _ = s.dev.(device.Copier)
	for pool, x := range copies {
		parts := x.parts(func(b engine.Block) bool { return live(pool, b) })
		for i, piece := range x.pieces {
			if n := len(parts[i]); n > 0 {
				last := parts[i][n-1]
				r.left = append(r.left, kept{piece, parts[i], last.addr + mem.Addr(last.size)})
			}
		}
	}
	slices.SortFunc(r.left, func(a, b kept) int { return cmp.Compare(a.end, b.end) })
	return r
}

// Begin copies back what lies before an address, on several threads. What it returns waits for
// these copies.
func (r *Return) Begin(end mem.Addr) (wait func() error) {
	n := slices.IndexFunc(r.left, func(k kept) bool { return k.end > end })
	if n < 0 {
		n = len(r.left)
	}
	now, done := r.left[:n], make(chan error, 1)
	r.left = r.left[n:]
	go func() {
		done <- hostmem.Parallel(n, func(i int) error {
			for _, p := range now[i].parts {
				if err := r.to.Write(p.addr, p.of(now[i].in)); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	return func() error { return <-done }
}

// Drop gives up what copies keep on the host.
func (s *Store) Drop(copies map[uint64]*Copy) error { return s.Give(taken(copies)...) }

// taken takes the pieces out of copies.
func taken(copies map[uint64]*Copy) (all []*Piece) {
	for _, x := range copies {
		for _, piece := range x.pieces {
			if piece != nil { // it was made before another failed
				all = append(all, piece)
			}
		}
		x.pieces = nil
	}
	return all
}

// KeepBeside keeps the pieces of copies, and settles (see Keep) on a goroutine: unpinning takes as
// long as copying.
func (s *Store) KeepBeside(copies map[uint64]*Copy) {
	settle := s.Keep(taken(copies)) // at once, or empty_cache would not see them
	s.busy.Go(func() {
		if err := settle(); err != nil {
			s.log.Warn("memory of the host was not given back", zap.Error(err))
		}
	})
}

// Await waits until KeepBeside has settled.
func (s *Store) Await() { s.busy.Wait() }
