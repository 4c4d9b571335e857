package baseline

import "fmt"

// check: every first block of a segment is counted.
func (c *core) check() error {
	segments := int64(0)
	for i := range c.blocks {
		if b := &c.blocks[i]; b.state != gone && b.prev == none {
			segments++
		}
	}
	if segments != c.stats.Segments {
		return fmt.Errorf("%d segments, %d counted", segments, c.stats.Segments)
	}
	return nil
}

// check: unmapped blocks are whole pages and exactly the members of their sets.
func (e *Expandable) check() error {
	members := 0
	for p := range e.holes {
		for s := range e.holes[p] {
			hs := &e.holes[p][s]
			if !hs.sorted() {
				return fmt.Errorf("the unmapped set of pool %d, stream %d is out of order", p, s)
			}
			members += hs.count
			for _, i := range hs.appendBlocks(nil) {
				b := &e.blocks[i]
				if b.state != unmapped || int(b.pool) != p || int(b.stream) != s {
					return fmt.Errorf("%v block at %v is in an unmapped set", b.state,
						Place{b.space, b.addr})
				}
				unit := page(b.pool)
				if int64(b.addr-e.starts[b.ext])%int64(unit) != 0 || b.size%unit != 0 {
					return fmt.Errorf("unmapped block at %v of %d bytes is not whole pages",
						Place{b.space, b.addr}, b.size)
				}
			}
		}
	}
	if n := e.countState(unmapped); n != members {
		return fmt.Errorf("%d blocks are unmapped and %d are in unmapped sets", n, members)
	}
	if e.stats.Segments != 0 {
		return fmt.Errorf("%d segments", e.stats.Segments)
	}
	return nil
}
