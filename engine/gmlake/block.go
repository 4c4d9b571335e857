package gmlake

import (
	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// none is the number of no block, segment, chunk or sBlock.
const none int32 = -1

// pageSize is the size of a chunk: one handle.
const pageSize = mem.HandleSize

// A block's states and what leads from one to the next:
//
//	gone → held            made, by a new segment or a cut
//	free → held → live     taken for a request, granted
//	free → held            its chunks serve an sBlock
//	live → pending         freed; other streams may still use it
//	live, pending, held → free
//	live, pending → idle   an sBlock, which keeps its mapping
//	free, idle → gone      merged, returned, dropped
type state uint8

const (
	gone state = iota
	free
	held
	live
	pending
	idle
)

func (s state) String() string {
	return [...]string{"gone", "free", "held", "live", "pending", "idle"}[s]
}

type kind uint8

const (
	large    kind = iota // a pBlock
	small                // a block of the small pool
	stitched             // an sBlock
)

type block struct {
	addr  mem.Addr
	size  mem.Bytes
	asked mem.Bytes // what Lookup tells, while live or pending: rounded to 512 bytes
	slack mem.Bytes // by which it was rounded up
	heap  int32
	kind  kind
	state state

	segment    int32 // large, small
	prev, next int32 // neighbours in the segment
	stitch     int32 // stitched: its record
	users      []user
}

// user is another stream that used a block, and the fence it waits for.
type user struct {
	stream mem.StreamID
	fence  driver.Fence
}

func (p *Pool) newBlock(k kind, heap int32, addr mem.Addr, size mem.Bytes) int32 {
	i := record(&p.blocks, &p.spareBlocks)
	users := p.blocks[i].users[:0]
	p.blocks[i] = block{
		addr: addr, size: size, heap: heap, kind: k, state: held, users: users,
		segment: none, prev: none, next: none, stitch: none,
	}
	return i
}

func (p *Pool) dropBlock(b int32) {
	p.blocks[b].state = gone
	p.spareBlocks = append(p.spareBlocks, b)
}

// record returns the number of a record to fill in.
func record[T any](records *[]T, spare *[]int32) int32 {
	if k := len(*spare); k > 0 {
		i := (*spare)[k-1]
		*spare = (*spare)[:k-1]
		return i
	}
	*records = append(*records, *new(T))
	return int32(len(*records) - 1)
}

// charge makes a held block live. asked is rounded up, by slack bytes.
func (p *Pool) charge(b int32, asked, slack mem.Bytes) {
	c := &p.blocks[b]
	c.state, c.asked, c.slack = live, asked, slack
	p.at[c.addr] = b
	p.stats.Blocks++
	p.stats.Load += asked
	p.stats.PeakLoad = max(p.stats.PeakLoad, p.stats.Load)
}

// discharge ends what charge began. The block is held.
func (p *Pool) discharge(b int32) {
	c := &p.blocks[b]
	if c.state == live {
		p.stats.Load -= c.asked
	} else {
		p.stats.Pending -= c.asked
	}
	p.stats.Blocks--
	delete(p.at, c.addr)
	c.state = held
}

// Within returns the live or pending block that contains addr. It looks at all of them.
func (p *Pool) Within(addr mem.Addr) (engine.Block, bool) {
	for at, b := range p.at {
		if addr-at < mem.Addr(p.blocks[b].asked) {
			return p.Lookup(at)
		}
	}
	return engine.Block{}, false
}

// Lookup returns the live or pending block that starts at addr.
func (p *Pool) Lookup(addr mem.Addr) (engine.Block, bool) {
	b, ok := p.at[addr]
	if !ok {
		return engine.Block{}, false
	}
	c := &p.blocks[b]
	h := &p.heaps[c.heap]
	return engine.Block{
		Addr: addr, Size: c.asked, Asked: c.asked - c.slack, Stream: h.stream, Pool: h.pool,
		Pending: c.state == pending,
	}, true
}
