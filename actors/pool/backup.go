package pool

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

// Pause copies device memory to the host in pieces, on several threads: each faults its piece in,
// pins it and copies. The kernel zeroes pages more slowly than the link carries them, so one thread
// alone would wait for it. Memory of the host is not kept for the next time, though that would be
// faster: processes that are awake may need it (docs: decision 26).
const (
	pieceSize     = 32 * mem.MiB
	backupThreads = 8
)

// backup is what is kept of a pool that sleeps.
type backup struct {
	memory []byte         // of the host, not of Go; nil: nothing is kept
	blocks []engine.Block // whose contents it has, one behind the other
	size   mem.Bytes      // of all of them
	pinned []bool         // its pieces
}

// part is what of a block lies in a piece.
type part struct {
	at   mem.Addr
	host []byte
}

// piece returns the ith piece of the memory.
func (x *backup) piece(i int) []byte {
	at := mem.Bytes(i) * pieceSize
	return x.memory[at:min(at+pieceSize, mem.Bytes(len(x.memory)))]
}

// parts cuts the blocks that are meant into pieces.
func (x *backup) parts(meant func(engine.Block) bool) [][]part {
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

// each does something with all pieces, on several threads, until it fails.
func (x *backup) each(do func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, min(backupThreads, len(x.pinned)))
	var all sync.WaitGroup
	for t := range errs {
		all.Go(func() {
			for errs[t] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(x.pinned) {
					return
				}
				errs[t] = do(i)
			}
			next.Store(int64(len(x.pinned)))
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// save copies the live blocks of pools to the host. Room for all is had before.
func (p *Pool) save(pools map[uint64]*backup) error {
	sum := mem.Bytes(0)
	for b := range p.policy.Blocks() {
		_, shared := p.exported[b.Addr] // which stays awake
		if x := pools[b.Pool]; x != nil && !shared && !p.isClosed(b.Pool) {
			x.blocks = append(x.blocks, b)
			x.size += b.Size
			sum += b.Size
		}
	}
	if sum == 0 {
		return nil
	}
	from, can := p.dev.Device.(device.Copier)
	if !can {
		return fmt.Errorf("the contents of %s cannot be had; discard them", p.dev.Name())
	}
	p.AwaitUnpinned()
	if err := p.unpin(); err != nil {
		p.Log.Warn("memory of the host is still pinned", zap.Error(err))
	}
	unlock := hostmem.Lock() // or several ranks would all find the same room
	defer unlock()
	if err := hostmem.Check(sum); err != nil {
		return err
	}
	for _, x := range pools {
		if err := p.copyOut(from, x); err != nil {
			return errors.Join(err, p.drop(pools))
		}
	}
	return nil
}

// copyOut copies what is to be kept of one pool.
func (p *Pool) copyOut(from device.Copier, x *backup) (err error) {
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
	err = x.each(func(i int) error {
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
		p.warnUnpinned.Do(func() {
			p.Log.Warn("memory of the host cannot be pinned; copies are slow", zap.Error(*why))
		})
	}
	return err
}

// restore copies what was kept back into the blocks that still live.
func (p *Pool) restore(pools map[uint64]*backup) error {
	to, _ := p.dev.Device.(device.Copier)
	for pool, x := range pools {
		if x.memory == nil {
			continue
		}
		parts := x.parts(func(b engine.Block) bool {
			now, live := p.policy.Lookup(b.Addr)
			return live && !now.Pending && now.Pool == pool
		})
		err := x.each(func(i int) error {
			for _, part := range parts[i] {
				if err := to.Write(part.at, part.host); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// drop gives up what is kept on the host. What could not be unpinned stays, and is tried again
// later: the driver would go on to copy from and to its pages, whatever is at its address by then.
func (p *Pool) drop(pools map[uint64]*backup) error {
	p.pinnedMu.Lock()
	for _, x := range pools {
		if x.memory != nil {
			p.pinned = append(p.pinned, &backup{memory: x.memory, pinned: x.pinned})
			x.memory = nil
		}
	}
	p.pinnedMu.Unlock()
	return p.unpin()
}

// AwaitUnpinned waits until the backups of what was resumed are given back, as far as they can be.
func (p *Pool) AwaitUnpinned() { p.unpinning.Wait() }

// unpin gives back what drop has given up, piece by piece, and keeps what fails.
func (p *Pool) unpin() error {
	p.pinnedMu.Lock()
	defer p.pinnedMu.Unlock()
	var errs []error
	p.pinned = slices.DeleteFunc(p.pinned, func(x *backup) bool {
		failed := make([]error, len(x.pinned))
		_ = x.each(func(i int) error {
			if x.pinned[i] {
				failed[i] = p.dev.Device.(device.Copier).Unpin(x.piece(i))
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

// kept returns what is kept on the host, and what could not be unpinned there.
func (p *Pool) kept() (n mem.Bytes) {
	for _, x := range p.asleep {
		if x.memory != nil {
			n += x.size
		}
	}
	p.pinnedMu.Lock()
	defer p.pinnedMu.Unlock()
	for _, x := range p.pinned {
		n += mem.Bytes(len(x.memory))
	}
	return n
}
