package paper

import "stalloc/internal/mem"

// cells is a table of cells of cellSize, the one freed last the first to be used again.
type cells struct {
	most int64
	free []mem.Offset
	used int64 // ever: these, and no others, are free or taken
}

func (c *cells) take() (mem.Offset, bool) {
	if n := len(c.free); n > 0 {
		at := c.free[n-1]
		c.free = c.free[:n-1]
		return at, true
	}
	if c.used == c.most {
		return 0, false
	}
	c.used++
	return mem.Offset(c.used-1) * mem.Offset(cellSize), true
}

func (c *cells) give(at mem.Offset) { c.free = append(c.free, at) }
