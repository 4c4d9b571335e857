package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"stalloc/actors/device"
	gpu "stalloc/cuda/sim"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// model is what the program believes: which blocks it holds, and how far the
// device has come with the work that uses them. It follows every block to the
// bytes of the handles behind it, because two addresses may be one byte.
//
//	handle 7   [ block a, live   ][ b, freed; stream 2 has not passed its use ]
//	             nothing may come    only once stream 2 has passed, or on b's own
//	             here                stream if no other stream used b
type model struct {
	dev *gpu.Device

	mu    sync.Mutex
	live  map[mem.Addr]*block
	in    map[driver.Handle][]piece
	begun map[mem.StreamID]int64 // work submitted
	done  map[mem.StreamID]int64 // work the device has finished
	// ordered: freed bytes are followed until their work is done. Off where the
	// driver is made to lie about that.
	ordered bool
	errs    []error
}

// block is a live block, or a freed one that pending work uses.
type block struct {
	addr   mem.Addr
	size   mem.Bytes
	stream mem.StreamID
	users  []mem.StreamID
	pieces []piece
	freed  bool
	waits  map[mem.StreamID]int64 // freed: how far each stream must come
}

// piece is the part of a block that lies in one handle.
type piece struct {
	handle driver.Handle
	lo, hi mem.Bytes
	of     *block
}

func newModel(dev *gpu.Device) *model {
	return &model{dev: dev, live: map[mem.Addr]*block{}, in: map[driver.Handle][]piece{},
		begun: map[mem.StreamID]int64{}, done: map[mem.StreamID]int64{}, ordered: true}
}

func (m *model) fail(format string, args ...any) {
	if len(m.errs) < 10 {
		m.errs = append(m.errs, fmt.Errorf(format, args...))
	}
}

func (m *model) err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.errs...)
}

// resolve finds the memory behind a block.
func (m *model) resolve(b *block) (pieces []piece) {
	for at, end := b.addr, b.addr+mem.Addr(b.size); at < end; {
		h, from, ok := m.dev.Behind(at)
		if !ok {
			m.fail("block %#x + %v has nothing behind it at %#x", uint64(b.addr), b.size,
				uint64(at))
			return pieces
		}
		lo := mem.Bytes(from)
		hi := min(mem.RoundUp(lo+1, mem.HandleSize), lo+mem.Bytes(end-at))
		pieces = append(pieces, piece{h, lo, hi, b})
		at += mem.Addr(hi - lo)
	}
	return pieces
}

// take enters a block that was handed out, and has its stream use it.
func (m *model) take(addr mem.Addr, asked mem.Bytes, stream mem.StreamID) *block {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := &block{addr: addr, size: asked, stream: stream}
	if addr == 0 || mem.Bytes(addr)%mem.Grain != 0 {
		m.fail("the address %#x was handed out", uint64(addr))
	}
	if m.live[addr] != nil {
		m.fail("block %#x is handed out twice", uint64(addr))
	}
	b.pieces = m.resolve(b)
	for _, p := range b.pieces {
		m.in[p.handle] = append(slices.DeleteFunc(m.in[p.handle],
			func(old piece) bool { return m.met(old, p) }), p)
	}
	m.live[addr] = b
	m.use(b, stream)
	return b
}

// met checks a new piece against one that is there, and reports whether the old
// one need not be looked at any more.
func (m *model) met(old, p piece) bool {
	if !old.of.freed {
		if old.lo < p.hi && p.lo < old.hi {
			m.fail("blocks %#x + %v and %#x + %v share bytes [%d, %d) of handle %#x",
				uint64(old.of.addr), old.of.size,
				uint64(p.of.addr), p.of.size, max(old.lo, p.lo), min(old.hi, p.hi),
				uint64(p.handle))
		}
		return false
	}
	pending := false
	for s, until := range old.of.waits {
		if m.done[s] >= until {
			continue
		}
		pending = true
		if m.ordered && s != p.of.stream && old.lo < p.hi && p.lo < old.hi {
			m.fail("block %#x + %v of stream %d was freed, stream %d still uses it, and its bytes went to %#x + %v of stream %d",
				uint64(old.of.addr), old.of.size, old.of.stream, s, uint64(p.of.addr), p.of.size,
				p.of.stream)
		}
	}
	return !pending || p.lo <= old.lo && old.hi <= p.hi
}

// use submits work to a stream that uses the block.
func (m *model) use(b *block, stream mem.StreamID) {
	m.begun[stream]++
	if err := m.dev.Use(stream, b.addr, b.size); err != nil {
		m.fail("use of %#x + %v: %w", uint64(b.addr), b.size, err)
	}
}

// useOn notes that another stream uses a block as well.
func (m *model) useOn(b *block, stream mem.StreamID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b.users = append(b.users, stream)
	m.use(b, stream)
}

// give ends a block, before the allocator hears of it.
func (m *model) give(b *block) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.same(b)
	delete(m.live, b.addr)
	b.freed = true
	b.waits = map[mem.StreamID]int64{b.stream: m.begun[b.stream]}
	for _, s := range b.users {
		b.waits[s] = m.begun[s]
	}
}

// same checks that a block still lies where it was handed out.
func (m *model) same(b *block) {
	if now := m.resolve(b); !slices.Equal(now, b.pieces) {
		m.fail("block %#x + %v has other memory behind it than when it was handed out",
			uint64(b.addr), b.size)
	}
}

// check looks at all live blocks.
func (m *model) check() error {
	m.mu.Lock()
	for _, b := range m.live {
		m.same(b)
		if err := m.dev.Touch(b.addr, b.size); err != nil {
			m.fail("touch of a live block: %w", err)
		}
	}
	m.mu.Unlock()
	return m.err()
}

// finish lets the device finish the work on a stream.
func (m *model) finish(stream mem.StreamID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done[stream] = m.begun[stream]
	m.dev.Finish(stream)
}

func (m *model) finishAll() {
	m.mu.Lock()
	streams := slices.Sorted(maps.Keys(m.begun))
	m.mu.Unlock()
	for _, s := range streams {
		m.finish(s)
	}
}

// watched tells the model of streams that the allocator waits for.
type watched struct {
	device.Device
	m *model
}

func (w watched) Sync() error {
	w.m.finishAll()
	return w.Device.Sync()
}
