package baseline

import (
	"fmt"
	"strconv"

	"stalloc/internal/mem"
)

// Block is the handle of a block that was handed out. It stays distinct from
// the handles of all later blocks, so that using it after the block is gone is
// an error and not the corruption of another block.
type Block int64

// None is the handle of no block, as Malloc returns for zero bytes.
const None Block = -1

// Space tells the two sources of addresses apart.
type Space uint8

const (
	RT Space = iota // addresses returned by cudaMalloc
	VM              // addresses reserved with cuMemAddressReserve
)

// Place is where a block lies: an offset from the first address of its space.
type Place struct {
	Space  Space
	Offset mem.Offset
}

func (p Place) String() string {
	if p.Space == VM {
		return "VM+" + strconv.FormatInt(int64(p.Offset), 10)
	}
	return "RT+" + strconv.FormatInt(int64(p.Offset), 10)
}

type state uint8

const (
	gone state = iota
	free
	live
	waiting
	unmapped
)

func (s state) String() string {
	return [...]string{"gone", "free", "live", "waiting", "unmapped"}[s]
}

// none is the index of no block.
const none int32 = -1

// block is the record of one block. Its neighbours are those of its segment,
// in address order.
type block struct {
	addr  mem.Offset
	size  mem.Bytes
	asked mem.Bytes // what the caller asked for, while live or waiting
	born  int64     // its pool's search counter when it was last freed, for the GC

	prev, next int32
	stream     int32
	gen        uint32 // raised each time it is handed out, so old handles are known
	waits      int32  // events that have not passed, while waiting
	ext        int32  // Expandable: the segment

	state    state
	pool     poolID
	space    Space
	used     bool // recorded on other streams; they are in core.uses
	deferred bool // waits for Complete though no stream is recorded
}

func (c *core) newBlock() int32 {
	var i int32
	if k := len(c.spare); k > 0 {
		i = c.spare[k-1]
		c.spare = c.spare[:k-1]
	} else {
		i = int32(len(c.blocks))
		c.blocks = append(c.blocks, block{})
	}
	c.blocks[i] = block{gen: c.blocks[i].gen, prev: none, next: none, ext: none}
	return i
}

func (c *core) dropBlock(i int32) {
	c.blocks[i].state = gone
	c.spare = append(c.spare, i)
}

func (c *core) handle(i int32) Block {
	return Block(int64(c.blocks[i].gen&(1<<31-1))<<32 | int64(i))
}

// find resolves a handle that a caller passed in.
func (c *core) find(h Block, doing string) (int32, error) {
	i := int64(h) & (1<<32 - 1)
	if h >= 0 && i < int64(len(c.blocks)) && c.handle(int32(i)) == h {
		if st := c.blocks[i].state; st == live || st == waiting {
			return int32(i), nil
		}
	}
	return none, fmt.Errorf("baseline: %s of block %d: %w", doing, int64(h), ErrUnknownBlock)
}

func (c *core) isSplit(b *block) bool { return b.prev != none || b.next != none }

// linkBefore puts lo in front of hi in the order of their segment.
func (c *core) linkBefore(lo, hi int32) {
	l, h := &c.blocks[lo], &c.blocks[hi]
	l.prev, l.next = h.prev, hi
	if h.prev != none {
		c.blocks[h.prev].next = lo
	}
	h.prev = lo
}

// absorb gives the addresses of victim, a neighbour of b, to b.
func (c *core) absorb(i, victim int32) {
	b, v := &c.blocks[i], &c.blocks[victim]
	b.size += v.size
	if b.prev == victim {
		b.addr = v.addr
		if b.prev = v.prev; v.prev != none {
			c.blocks[v.prev].next = i
		}
	} else {
		if b.next = v.next; v.next != none {
			c.blocks[v.next].prev = i
		}
	}
	c.dropBlock(victim)
}

// freeSet is the set of free blocks of the block's pool and stream.
func (c *core) freeSet(b *block) *set { return &c.pools[b.pool].free[b.stream] }

func (c *core) insertFree(i int32) {
	b := &c.blocks[i]
	b.state = free
	b.born = c.pools[b.pool].searches
	c.freeSet(b).insert(entry{b.size, b.addr, i})
}

// removeFree takes a free block out of its set; the caller sets its new state.
func (c *core) removeFree(i int32) {
	b := &c.blocks[i]
	if !c.freeSet(b).remove(b.size, b.addr) {
		panic(fmt.Sprintf("baseline: free block at %v is not in its free set",
			Place{b.space, b.addr}))
	}
}
