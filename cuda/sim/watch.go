package sim

import (
	"fmt"
	"slices"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Watch follows blocks to the memory itself, whatever an allocator believes of it: two
// addresses may be the same byte, and what is behind an address may change. It holds an
// allocator to the rules that matter to a program:
//
//   - no byte is in two blocks that are live, or freed and still used by other streams;
//   - a live block has the same memory all the time;
//   - what queued work uses stays mapped until the work is done (Unmap refuses it).
//
// A Watch is for one goroutine.
type Watch struct {
	device *Device
	pieces map[driver.Handle][]piece // of the blocks it follows; nil: it follows none
}

// Watched is a block that a Watch follows.
type Watched struct {
	watch  *Watch
	addr   mem.Addr
	size   mem.Bytes
	stream mem.StreamID
	behind []memory // by page that it touches; zero: none is known
	waits  []wait   // for other streams, once it was freed
}

// memory is a byte of a handle.
type memory struct {
	handle driver.Handle
	at     mem.Offset
}

// piece is the part of a block in one page of a handle, by its place in the handle.
type piece struct {
	of     *Watched
	lo, hi mem.Offset
}

// wait is a place in the work of a stream.
type wait struct {
	stream *stream
	until  mem.Tick
}

// NewWatch returns a Watch that follows no block.
func NewWatch(device *Device) *Watch {
	return &Watch{device: device, pieces: make(map[driver.Handle][]piece)}
}

// NewUses returns a Watch that only queues the work which uses blocks.
func NewUses(device *Device) *Watch { return &Watch{device: device} }

// Begin follows a block of size bytes that was handed out for work on a stream, and
// queues work that uses it. The error says what is wrong with the block.
func (w *Watch) Begin(addr mem.Addr, size mem.Bytes, stream mem.StreamID) (*Watched, error) {
	b := &Watched{watch: w, addr: addr, size: size, stream: stream}
	err := w.device.Use(stream, addr, size)
	if w.pieces == nil {
		return b, err
	}
	b.each(func(from mem.Addr, size mem.Bytes) {
		h, lo, ok := w.device.Behind(from)
		b.behind = append(b.behind, memory{h, lo})
		if !ok { // there is none: Use has said so
			return
		}
		hi := lo + mem.Offset(size)
		kept := slices.DeleteFunc(w.pieces[h], func(p piece) bool {
			if p.hi <= lo || hi <= p.lo {
				return false
			}
			over := w.device.over(p.of.waits)
			if !over && err == nil {
				err = fmt.Errorf("%v shares memory with %v, which is in use", b, p.of)
			}
			return over
		})
		w.pieces[h] = append(kept, piece{b, lo, hi})
	})
	return b, err
}

// Freed says that the program has freed the block, behind the last work that it queued on
// its own stream and on others. Without others it is followed no longer, otherwise until
// those have passed this point or, if that is earlier, End.
func (b *Watched) Freed(others ...mem.StreamID) (err error) {
	device := b.watch.device
	if b.watch.pieces != nil {
		err = b.moved()
	}
	for _, id := range append(others, b.stream) {
		if used := device.Use(id, b.addr, b.size); err == nil {
			err = used
		}
	}
	for _, id := range others {
		b.waits = append(b.waits, device.place(id))
	}
	if len(others) == 0 {
		b.End()
	}
	return err
}

// moved reports whether the block has other memory than it was handed out with.
func (b *Watched) moved() (err error) {
	page := 0
	b.each(func(from mem.Addr, _ mem.Bytes) {
		h, at, _ := b.watch.device.Behind(from)
		if (memory{h, at}) != b.behind[page] && err == nil {
			err = fmt.Errorf("%v has other memory at %#x than when it was handed out", b,
				uint64(from))
		}
		page++
	})
	return err
}

// End says that nothing uses the block any more.
func (b *Watched) End() {
	for _, m := range b.behind {
		b.watch.pieces[m.handle] = slices.DeleteFunc(b.watch.pieces[m.handle],
			func(p piece) bool { return p.of == b })
	}
}

// String names the block by its size and address.
func (b *Watched) String() string {
	return fmt.Sprintf("the block of %v at %#x", b.size, uint64(b.addr))
}

// each visits the parts of the block that lie in a page each.
func (b *Watched) each(visit func(from mem.Addr, size mem.Bytes)) {
	const mask = mem.Addr(mem.HandleSize - 1)
	end := b.addr + mem.Addr(b.size)
	for at := b.addr; at < end; {
		next := min(at&^mask+mem.Addr(mem.HandleSize), end)
		visit(at, mem.Bytes(next-at))
		at = next
	}
}

// place returns how far the work on a stream has been queued.
func (d *Device) place(id mem.StreamID) wait {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stream(id)
	return wait{s, s.last}
}

// over reports whether there was something to wait for, and all of it has passed.
func (d *Device) over(waits []wait) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range waits {
		if w.stream.passed < w.until {
			return false
		}
	}
	return len(waits) > 0
}
