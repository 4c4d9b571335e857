package baseline

import (
	"fmt"

	"stalloc/internal/invariants"
	"stalloc/internal/mem"
)

// backend is what the simulated allocators do differently. core implements all
// of it the way PyTorch's native allocator does.
type backend interface {
	// search takes a block for the request out of the cache, or returns none.
	search(rq request) int32
	// grow takes memory from the driver and returns a block of at least rq.n
	// bytes that is in no free set, or none if the device is full.
	grow(rq request) int32
	// handOut cuts the block found to the request, marks it live and returns it.
	handOut(i int32, rq request) int32
	// reclaim returns a block to the cache once nothing uses it any more.
	reclaim(i int32)
	// release returns an unsplit free block to the driver.
	release(i int32)
	// flush returns all memory that is wholly free to the driver.
	flush()
	// check recounts what only this allocator has.
	check() error
}

// core is the machine both simulators share: the blocks, the free sets,
// the order of attempts, the events and the accounts.
type core struct {
	opt  Options
	back backend
	name string

	blocks []block
	spare  []int32 // records that are gone
	pools  [pools]poolState

	streams  map[mem.StreamID]int32
	lastID   mem.StreamID // the stream interned last: nearly always the next one
	lastIdx  int32
	streamed []mem.StreamID

	pending events
	rt, vm  mem.Offset // the next address of each space, going up
	rtTop   mem.Offset // the end of the next segment going down
	// expandable: segments are never whole, so there are no inactive_split
	// statistics and nothing for the collector or releaseAvailable.
	expandable bool
	stats      Stats
	calls      Calls
	scratch    []int32
	mallocs    int64
}

type poolState struct {
	free     []set // by interned stream
	searches int64 // best-fit searches so far, the clock of the garbage collector
}

// rtEnd is where the segments that go down start: far enough from zero never to
// meet those that go up.
const rtEnd mem.Offset = 1 << 60

func (c *core) init(name string, o Options, b backend) {
	*c = core{opt: o.withDefaults(), back: b, name: name, streams: map[mem.StreamID]int32{},
		lastIdx: none, rtTop: rtEnd}
}

func (c *core) intern(s mem.StreamID) int32 {
	if s == c.lastID && c.lastIdx != none {
		return c.lastIdx
	}
	i, ok := c.streams[s]
	if !ok {
		i = int32(len(c.streamed))
		c.streams[s] = i
		c.streamed = append(c.streamed, s)
		for p := range c.pools {
			c.pools[p].free = append(c.pools[p].free, set{})
		}
		c.pending.queues = append(c.pending.queues, queue{})
	}
	c.lastID, c.lastIdx = s, i
	return i
}

// request rounds what the caller asked for.
func (c *core) request(size mem.Bytes, stream mem.StreamID) request {
	n := c.opt.roundSize(size)
	return request{asked: size, n: n, segment: segmentSize(n), pool: poolOf(n),
		stream: c.intern(stream)}
}

func (c *core) Malloc(size mem.Bytes, stream mem.StreamID) (Block, error) {
	if size < 0 || size > maxRequest {
		return None, fmt.Errorf("baseline: request of %d bytes: expected 0 to %d", int64(size),
			int64(maxRequest))
	}
	if size == 0 {
		return None, nil
	}
	return c.serve(c.request(size, stream))
}

func (c *core) serve(rq request) (Block, error) {
	c.processEvents()
	i := c.obtain(rq)
	if i == none {
		c.stats.OOMs++
		return None, &OutOfMemory{
			Asked: rq.asked, Stream: c.streamed[rq.stream],
			Allocated: c.stats.Allocated, Reserved: c.stats.Reserved,
			Capacity: c.opt.Capacity, Fraction: c.opt.Limit,
		}
	}
	i = c.back.handOut(i, rq)
	b := &c.blocks[i]
	b.state = live
	b.gen++ // the record may have been another block, whose handle is stale now
	b.asked = rq.asked
	c.stats.Allocated += b.size
	c.stats.Requested += rq.asked
	raise(&c.stats.PeakAllocated, c.stats.Allocated)
	raise(&c.stats.PeakActive, c.stats.Active)
	raise(&c.stats.PeakRequested, c.stats.Requested)
	c.selfCheck()
	return c.handle(i), nil
}

// obtain tries PyTorch's ways of finding memory in PyTorch's order.
func (c *core) obtain(rq request) int32 {
	if i := c.back.search(rq); i != none {
		return i
	}
	c.collectGarbage()
	if i := c.back.grow(rq); i != none {
		return i
	}
	if c.releaseAvailable(rq) {
		if i := c.back.grow(rq); i != none {
			return i
		}
	}
	c.drainEvents()
	c.back.flush()
	c.stats.Retries++
	return c.back.grow(rq)
}

func (c *core) Free(h Block) error {
	i, err := c.find(h, "free")
	if err != nil {
		return err
	}
	b := &c.blocks[i]
	if b.state != live {
		return fmt.Errorf("baseline: second free of the block at %v: %w", Place{b.space, b.addr},
			ErrUnknownBlock)
	}
	c.stats.Allocated -= b.size
	if b.used || b.deferred {
		c.startWaiting(i)
	} else {
		c.back.reclaim(i)
	}
	return nil
}

func (c *core) EmptyCache() {
	c.drainEvents()
	c.back.flush()
}

func (c *core) Addr(h Block) (Place, error) {
	i, err := c.find(h, "address")
	if err != nil {
		return Place{}, err
	}
	return Place{c.blocks[i].space, c.blocks[i].addr}, nil
}

func (c *core) held(space Space, at mem.Offset, size mem.Bytes, held bool) {
	if c.opt.Held != nil {
		c.opt.Held(Place{space, at}, size, held)
	}
}

func (c *core) Stats() Stats { return c.stats }
func (c *core) Calls() Calls { return c.calls }
func (c *core) Name() string { return c.name }

// selfCheck recounts everything now and then where expensive checks are on.
func (c *core) selfCheck() {
	if !invariants.Enabled {
		return
	}
	if c.mallocs++; c.mallocs%4096 == 0 {
		if err := c.Check(); err != nil {
			panic(err)
		}
	}
}
