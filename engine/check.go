package engine

import (
	"fmt"
	"math/bits"

	"stalloc/internal/mem"
)

// occupancy is the set of taken units of one handle, rebuilt from the blocks.
type occupancy [pageUnits / 64]uint64

// add takes [lo, hi) and reports whether all of it was free.
func (o *occupancy) add(lo, hi unit) bool {
	for lo < hi {
		n := min(hi-lo, 64-lo&63)
		mask := ^uint64(0) >> (64 - n) << (lo & 63)
		if o[lo>>6]&mask != 0 {
			return false
		}
		o[lo>>6] |= mask
		lo += n
	}
	return true
}

// stretch returns how many units from u on are free, if flip is zero, or taken,
// if flip is all ones.
func (o *occupancy) stretch(u unit, flip uint64) unit {
	from := u
	for u < pageUnits {
		n := min(unit(bits.TrailingZeros64((o[u>>6]^flip)>>(u&63))), 64-u&63)
		u += n
		if n == 0 || u&63 != 0 {
			break
		}
	}
	return u - from
}

// Check recounts the whole state from the blocks and the mapped pages, which are
// the truth, and compares it with everything the engine keeps to be fast: every
// unit of every handle is live or pending in exactly one block, or free; the runs
// of every view are the complement of the occupancy of its handles; every list
// and every sum is right. It returns the first equation that does not hold.
func (e *Engine) Check() error {
	taken, err := e.checkBlocks()
	if err != nil {
		return err
	}
	if err := e.checkHandles(taken); err != nil {
		return err
	}
	runs, shared := 0, 0
	for x := range e.views {
		if e.views[x].heap == 0 {
			continue
		}
		n, err := e.checkView(uint32(x), taken)
		if err != nil {
			return err
		}
		runs += n
		if e.views[x].list < privateViews {
			shared += n
		}
	}
	return e.checkIndexes(runs, shared)
}

// checkBlocks rebuilds the occupancy and finds overlaps, through aliases too.
func (e *Engine) checkBlocks() ([]occupancy, error) {
	taken := make([]occupancy, len(e.handles))
	var load, pending mem.Bytes
	count := 0
	for b := 1; b < len(e.blocks); b++ {
		c := &e.blocks[b]
		if c.state == blockGone {
			continue
		}
		count++
		if e.blockAt.get(uint64(c.at)+1) != uint32(b) {
			return nil, fmt.Errorf("block %d at unit %d is not found by its address", b, c.at)
		}
		if c.state == blockLive {
			load += bytesOf(c.size)
		} else {
			pending += bytesOf(c.size)
		}
		if err := e.checkFences(uint32(b)); err != nil {
			return nil, err
		}
		for at := c.at; at < c.at+c.size; {
			p := &e.pages[at>>pageShift]
			if p.handle == 0 || p.view != c.view {
				return nil, fmt.Errorf("block %d covers unit %d, which view %d does not map", b, at, c.view)
			}
			if e.handles[p.handle].heap != e.views[c.view].heap {
				return nil, fmt.Errorf("block %d lies in handle %d of another heap", b, p.handle)
			}
			end := min(c.at+c.size, (at|pageMask)+1)
			if !taken[p.handle].add(at&pageMask, (end-1)&pageMask+1) {
				return nil, fmt.Errorf("units [%d, %d) of handle %d are in two blocks, one of them %d",
					at&pageMask, (end-1)&pageMask+1, p.handle, b)
			}
			at = end
		}
	}
	s := &e.stats
	if load != s.Load || pending != s.Pending || count != s.Blocks || count != e.blockAt.used {
		return nil, fmt.Errorf("blocks: %d with load %d and pending %d; counted as %d, %d, %d, table %d",
			count, load, pending, s.Blocks, s.Load, s.Pending, e.blockAt.used)
	}
	return taken, nil
}

func (e *Engine) checkFences(b uint32) error {
	c := &e.blocks[b]
	waits := int32(0)
	for u := c.users; u != 0; u = e.users[u].next {
		if f := e.users[u].fence; f != 0 {
			waits++
			if e.fenceAt.get(f) != b {
				return fmt.Errorf("fence %d does not lead to block %d", f, b)
			}
		}
	}
	if waits != c.fences || (c.state == blockPending) != (waits > 0) {
		return fmt.Errorf("block %d waits for %d fences, counted as %d, state %d", b, waits, c.fences, c.state)
	}
	return nil
}

// checkHandles compares each handle's summary and lists with its occupancy.
func (e *Engine) checkHandles(taken []occupancy) error {
	handles := 0
	perHeap := make([]int, len(e.heaps))
	listed := make([]uint8, len(e.handles)) // bit 0: in the free list, bits 1 and 2: in those of its ends
	for i := range e.heaps {
		h := &e.heaps[i]
		n := 0
		for x := h.free; x != 0; x = e.handles[x].link[prefix].next {
			listed[x] |= 1
			n++
		}
		if n != h.freeCount {
			return fmt.Errorf("heap %d lists %d free handles, counted as %d", i, n, h.freeCount)
		}
		for side := range h.edges {
			for class, x := range h.edges[side].head {
				if (x != 0) != (h.edges[side].some[class>>6]>>(class&63)&1 == 1) {
					return fmt.Errorf("heap %d: the bit for class %d at end %d is wrong", i, class, side)
				}
				for ; x != 0; x = e.handles[x].link[side].next {
					if c := &e.handles[x]; c.edge[side] == 0 || int(c.edge[side]>>edgeShift) != class || c.heap != uint32(i) {
						return fmt.Errorf("heap %d lists handle %d with %v free under class %d", i, x, c.edge, class)
					}
					listed[x] |= 2 << side
				}
			}
		}
	}
	for x := 1; x < len(e.handles); x++ {
		c := &e.handles[x]
		if c.heap == 0 {
			continue
		}
		handles++
		perHeap[c.heap]++
		used, edge, want := recount(&taken[x])
		if c.used != used || c.edge != edge || listed[x] != want {
			return fmt.Errorf("handle %d: %d units used, %d free at its ends, lists %b; recounted %d, %d, %b",
				x, c.used, c.edge, listed[x], used, edge, want)
		}
	}
	for i := range e.heaps {
		if perHeap[i] != e.heaps[i].handles {
			return fmt.Errorf("heap %d has %d handles, counted as %d", i, perHeap[i], e.heaps[i].handles)
		}
	}
	if handles != e.stats.Handles || handles+len(e.spareHandles) != len(e.handles)-1 {
		return fmt.Errorf("%d handles, counted as %d, %d spare numbers", handles, e.stats.Handles, len(e.spareHandles))
	}
	return nil
}

// recount returns what a handle's summary should be, and the lists it should be on.
func recount(o *occupancy) (used uint16, edge [2]uint16, lists uint8) {
	first, last := int(pageUnits), -1
	for w, word := range o {
		used += uint16(bits.OnesCount64(word))
		if word != 0 {
			first = min(first, w<<6+bits.TrailingZeros64(word))
			last = w<<6 + 63 - bits.LeadingZeros64(word)
		}
	}
	edge = [2]uint16{uint16(first), uint16(int(pageUnits) - 1 - last)}
	if used == 0 {
		return used, edge, 1
	}
	for side := range edge {
		if edge[side] > 0 {
			lists |= 2 << side
		}
	}
	return used, edge, lists
}
