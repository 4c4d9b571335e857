package baseline

import (
	"fmt"
	"sort"

	"stalloc/internal/mem"
)

// Check recounts the state from the block records. It visits every block a few
// times and changes nothing.
func (c *core) Check() error {
	for _, check := range []func() error{c.checkLinks, c.checkSets, c.checkSums, c.checkSegments,
		c.checkWaits, c.back.check} {
		if err := check(); err != nil {
			return fmt.Errorf("baseline: %s: invariant broken: %w", c.name, err)
		}
	}
	return nil
}

// checkLinks: the neighbours of a block lie next to it, agree that they do, and
// would have merged if they could.
func (c *core) checkLinks() error {
	for i := range c.blocks {
		b := &c.blocks[i]
		if b.state == gone {
			continue
		}
		if b.size <= 0 || b.size%mem.Grain != 0 {
			return fmt.Errorf("block at %v has size %d", Place{b.space, b.addr}, b.size)
		}
		if b.next == none {
			continue
		}
		n := &c.blocks[b.next]
		if n.state == gone || n.prev != int32(i) || b.addr+mem.Offset(b.size) != n.addr ||
			n.space != b.space || n.pool != b.pool || n.stream != b.stream {
			return fmt.Errorf("%v block at %v of %d bytes and its neighbour, %v at %v, do not fit",
				b.state, Place{b.space, b.addr}, b.size, n.state, Place{n.space, n.addr})
		}
		if b.state == n.state && (b.state == free || b.state == unmapped) {
			return fmt.Errorf("two neighbours at %v and %v are %v", Place{b.space, b.addr},
				Place{n.space, n.addr}, b.state)
		}
	}
	return nil
}

// checkSets: a block is in the free set of its pool and stream exactly when its
// state is free.
func (c *core) checkSets() error {
	members := 0
	for p := range c.pools {
		for s := range c.pools[p].free {
			fs := &c.pools[p].free[s]
			if !fs.sorted() {
				return fmt.Errorf("the free set of pool %d, stream %d is out of order", p, s)
			}
			members += fs.count
			for _, i := range fs.appendBlocks(nil) {
				b := &c.blocks[i]
				cur, ok := fs.ceil(entry{size: b.size, addr: b.addr})
				if b.state != free || int(b.pool) != p || int(b.stream) != s || !ok ||
					fs.at(cur).block != i {
					return fmt.Errorf("%v block at %v of %d bytes is in the free set of pool %d, stream %d under another key",
						b.state, Place{b.space, b.addr}, b.size, p, s)
				}
			}
		}
	}
	if n := c.countState(free); n != members {
		return fmt.Errorf("%d blocks are free and %d are in free sets", n, members)
	}
	return nil
}

func (c *core) countState(s state) int {
	n := 0
	for i := range c.blocks {
		if c.blocks[i].state == s {
			n++
		}
	}
	return n
}

// checkSums: the statistics are sums over the blocks.
func (c *core) checkSums() error {
	var want Stats
	for i := range c.blocks {
		b := &c.blocks[i]
		switch b.state {
		case gone:
			continue
		case live:
			want.Allocated += b.size
			want.Requested += b.asked
		case waiting:
			want.Requested += b.asked
		}
		if b.state == live || b.state == waiting {
			want.Active += b.size
		}
		if b.state != unmapped {
			want.Reserved += b.size
		}
		if b.state == free && c.isSplit(b) && !c.expandable {
			want.InactiveSplit++
			want.InactiveSplitBytes += b.size
		}
	}
	got := Stats{
		Allocated: c.stats.Allocated, Active: c.stats.Active, Requested: c.stats.Requested,
		Reserved:      c.stats.Reserved,
		InactiveSplit: c.stats.InactiveSplit, InactiveSplitBytes: c.stats.InactiveSplitBytes,
	}
	if got != want {
		return fmt.Errorf("the statistics say %+v, the blocks %+v", got, want)
	}
	s := &c.stats
	if s.Allocated > s.PeakAllocated || s.Active > s.PeakActive || s.Requested > s.PeakRequested ||
		s.Reserved > s.PeakReserved || s.Reserved > c.opt.Capacity {
		return fmt.Errorf("a statistic is beyond its peak or the device: %+v", *s)
	}
	return nil
}

// checkSegments: every block is reached from the first block of its segment,
// and no two segments share an address.
func (c *core) checkSegments() error {
	type span struct {
		space    Space
		from, to mem.Offset
	}
	var spans []span
	reached := 0
	for i := range c.blocks {
		b := &c.blocks[i]
		if b.state == gone || b.prev != none {
			continue
		}
		s := span{b.space, b.addr, b.addr}
		for j := int32(i); j != none; j = c.blocks[j].next {
			s.to += mem.Offset(c.blocks[j].size)
			if reached++; reached > len(c.blocks) {
				return fmt.Errorf("the segment at %v has a cycle", Place{b.space, b.addr})
			}
		}
		spans = append(spans, s)
	}
	if n := len(c.blocks) - c.countState(gone); n != reached {
		return fmt.Errorf("%d blocks exist and %d lie in segments", n, reached)
	}
	sort.Slice(spans, func(i, j int) bool {
		a, b := spans[i], spans[j]
		return a.space < b.space || a.space == b.space && a.from < b.from
	})
	for i := 1; i < len(spans); i++ {
		if a, b := spans[i-1], spans[i]; a.space == b.space && a.to > b.from {
			return fmt.Errorf("the segments at %v and %v overlap", Place{a.space, a.from},
				Place{b.space, b.from})
		}
	}
	return nil
}

// checkWaits: a waiting block waits for as many events as are queued for it.
func (c *core) checkWaits() error {
	waits := map[int32]int32{}
	for s := range c.pending.queues {
		for _, i := range c.pending.queues[s].blocks {
			waits[i]++
		}
	}
	for _, i := range c.pending.ready {
		waits[i]++
	}
	n := 0
	for i := range c.blocks {
		b := &c.blocks[i]
		if b.state != waiting {
			if waits[int32(i)] != 0 {
				return fmt.Errorf("%v block at %v has events", b.state, Place{b.space, b.addr})
			}
			continue
		}
		n++
		want := waits[int32(i)]
		if b.deferred {
			want++
		}
		if b.waits != want || want == 0 {
			return fmt.Errorf("block at %v waits for %d events, %d are queued",
				Place{b.space, b.addr}, b.waits, want)
		}
	}
	if n != c.pending.count {
		return fmt.Errorf("%d blocks wait, %d are counted", n, c.pending.count)
	}
	return nil
}
