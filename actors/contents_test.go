package actors

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"stalloc/actors/host"
	"stalloc/cuda/sim"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// contents is a device whose memory has contents: a number at the start of each 2 MiB. What is
// queued on its streams is done as late as events allow, or now and then sooner. The memory must
// then be what it was when the work was queued.
type contents struct {
	*sim.Device
	mu      sync.Mutex // the mover calls it, too
	rand    *rand.Rand
	fails   int // one of so many calls for copies and events, 0: none
	numbers map[spot]uint64
	lines   map[mem.StreamID]*line
	events  map[driver.Fence]*moment
	last    driver.Fence
	streams mem.StreamID // made
	outs    int          // copies
	faults  []error
}

// spot is 2 MiB of memory, wherever it is mapped.
type spot struct {
	of driver.Handle
	at mem.Offset
}

// line is the work of a stream.
type line struct {
	done int
	todo []task
}

// task is work, or a wait for another stream.
type task struct {
	do     func()
	behind *moment
	host   []byte // that it copies to or from
}

// moment is a place in a stream's work, and how often Done says that it has not come.
type moment struct {
	stream mem.StreamID
	at     int
	noes   int
}

func newContents(capacity mem.Bytes, r *rand.Rand) *contents {
	return &contents{Device: sim.New(sim.Config{Capacity: capacity}), rand: r,
		numbers: map[spot]uint64{}, lines: map[mem.StreamID]*line{},
		events: map[driver.Fence]*moment{}}
}

func (d *contents) fault(format string, args ...any) {
	d.faults = append(d.faults, fmt.Errorf(format, args...))
}

// locked does something where only one thread is; fallible fails now and then instead.
func (d *contents) locked(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
}

func (d *contents) fallible(do func()) (err error) {
	d.locked(func() {
		if d.fails > 0 && d.rand.IntN(d.fails) == 0 {
			err = errFailing
			return
		}
		do()
	})
	return err
}

func (d *contents) line(id mem.StreamID) *line {
	if d.lines[id] == nil {
		d.lines[id] = &line{}
	}
	return d.lines[id]
}

func (d *contents) end(id mem.StreamID) int { return d.line(id).done + len(d.line(id).todo) }

// pass does the work of a stream up to a place.
func (d *contents) pass(id mem.StreamID, to int) {
	for x := d.line(id); x.done < to; x.done++ {
		next := x.todo[0]
		x.todo = x.todo[1:]
		if next.behind != nil {
			d.pass(next.behind.stream, next.behind.at)
		} else {
			next.do()
		}
	}
}

func (d *contents) queue(id mem.StreamID, t task) {
	x := d.line(id)
	if x.todo = append(x.todo, t); d.rand.IntN(16) == 0 {
		d.pass(id, x.done+1)
	}
}

// work queues what is done for each 2 MiB that begin in a range.
func (d *contents) work(
	what string, id mem.StreamID, at mem.Addr, size mem.Bytes, host []byte,
	do func(off mem.Bytes, x spot),
) {
	before := d.spots(what, at, size)
	first := mem.RoundUp(mem.Bytes(at), mem.HandleSize) - mem.Bytes(at)
	d.queue(id, task{host: host, do: func() {
		now := d.spots(what, at, size)
		if !slices.Equal(before, now) {
			d.fault("%s: there is other memory at %#x now", what, uint64(at))
			return
		}
		for i, x := range now {
			do(first+mem.Bytes(i)*mem.HandleSize, x)
		}
	}})
}

// each does something for each 2 MiB that begin in a range.
func (d *contents) each(
	what string, at mem.Addr, size mem.Bytes, do func(off mem.Bytes, x spot),
) {
	first := mem.RoundUp(mem.Bytes(at), mem.HandleSize) - mem.Bytes(at)
	for i, x := range d.spots(what, at, size) {
		do(first+mem.Bytes(i)*mem.HandleSize, x)
	}
}

// spots returns the memory in a range that can be used.
func (d *contents) spots(what string, at mem.Addr, size mem.Bytes) (all []spot) {
	if err := d.Touch(at, size); err != nil {
		d.fault("%s: %w", what, err)
		return nil
	}
	first := mem.Addr(mem.RoundUp(mem.Bytes(at), mem.HandleSize))
	for ; first < at+mem.Addr(size); first += mem.Addr(mem.HandleSize) {
		of, in, _ := d.Behind(first)
		all = append(all, spot{of, in})
	}
	return all
}

func (d *contents) Record(id mem.StreamID) (f driver.Fence, err error) {
	err = d.fallible(func() {
		d.last++
		f = d.last
		d.events[f] = &moment{id, d.end(id), d.rand.IntN(6)}
	})
	return f, err
}

func (d *contents) Done(f driver.Fence) (passed bool, err error) {
	err = d.fallible(func() {
		x := d.events[f]
		if x.noes--; x.noes < 0 || d.line(x.stream).done >= x.at {
			d.pass(x.stream, x.at)
			delete(d.events, f)
			passed = true
		}
	})
	return passed, err
}

func (d *contents) Await(id mem.StreamID, f driver.Fence) error {
	return d.fallible(func() {
		if x := d.events[f]; x != nil {
			d.queue(id, task{behind: x})
		}
	})
}

func (d *contents) Sync() error {
	d.locked(func() {
		for id := range d.lines {
			d.pass(id, d.end(id))
		}
	})
	return nil
}

func (d *contents) NewStream() (mem.StreamID, error) {
	d.streams++
	return 1<<48 + d.streams, nil
}

func (d *contents) DropStream(id mem.StreamID) error {
	d.locked(func() { d.pass(id, d.end(id)) })
	return nil
}

func (d *contents) CopyOut(to []byte, from mem.Addr, on mem.StreamID) error {
	return d.fallible(func() {
		d.outs++
		d.work("a copy out", on, from, mem.Bytes(len(to)), to, func(off mem.Bytes, x spot) {
			binary.LittleEndian.PutUint64(to[off:], d.numbers[x])
		})
	})
}

func (d *contents) CopyBack(to mem.Addr, from []byte, on mem.StreamID) error {
	return d.fallible(func() {
		d.work("a copy back", on, to, mem.Bytes(len(from)), from, func(off mem.Bytes, x spot) {
			d.numbers[x] = binary.LittleEndian.Uint64(from[off:])
		})
	})
}

func (d *contents) Read(to []byte, from mem.Addr) error {
	return d.fallible(func() {
		d.each("a read", from, mem.Bytes(len(to)), func(off mem.Bytes, x spot) {
			binary.LittleEndian.PutUint64(to[off:], d.numbers[x])
		})
	})
}

func (d *contents) Write(to mem.Addr, from []byte) error {
	return d.fallible(func() {
		d.each("a write", to, mem.Bytes(len(from)), func(off mem.Bytes, x spot) {
			d.numbers[x] = binary.LittleEndian.Uint64(from[off:])
		})
	})
}

func (d *contents) Pin([]byte) error { return d.fallible(func() {}) }

func (d *contents) Unpin(memory []byte) error {
	return d.fallible(func() {
		for id, x := range d.lines {
			for _, t := range x.todo {
				if len(t.host) > 0 && &t.host[0] == &memory[0] {
					d.fault("memory of the host goes while stream %d copies", id)
				}
			}
		}
	})
}

// capturing is a host where a stream may be captured.
type capturing struct {
	*host.Model
	pools atomic.Int64
}

func (h *capturing) Captures() int { return int(h.pools.Load()) }
