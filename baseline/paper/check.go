package paper

import (
	"fmt"

	"stalloc/baseline"
	"stalloc/internal/mem"
)

// Check recounts the state from the blocks, and changes nothing.
func (a *Allocator) Check() error {
	for _, check := range []func() error{a.checkRegion, a.checkCells, a.checkSums, a.cache.Check} {
		if err := check(); err != nil {
			return fmt.Errorf("paper: invariant broken: %w", err)
		}
	}
	return nil
}

// checkRegion: what is taken is in order, apart, inside, and exactly the blocks'.
func (a *Allocator) checkRegion() error {
	low := mem.Offset(0)
	for i, s := range a.region.busy {
		if s.from < low || s.to <= s.from || s.to > mem.Offset(a.plan.Region) {
			return fmt.Errorf("the region has [%d, %d) as its block %d, after one that ends at %d, of %d bytes",
				s.from, s.to, i, low, a.plan.Region)
		}
		low = s.to
	}
	n := 0
	for b, x := range a.blocks {
		if x.cell {
			continue
		}
		n++
		if i := a.region.after(x.from); i == len(a.region.busy) || a.region.busy[i] != x.span {
			return fmt.Errorf("block %d at [%d, %d) is not taken in the region", int64(b), x.from,
				x.to)
		}
	}
	if n != len(a.region.busy) {
		return fmt.Errorf("%d blocks in a region that has %d", n, len(a.region.busy))
	}
	return nil
}

// checkCells: each cell is a block's or free, and there are no more than fit.
func (a *Allocator) checkCells() error {
	taken := make(map[mem.Offset]bool)
	hold := func(at mem.Offset) error {
		if taken[at] || at < 0 || at%mem.Offset(cellSize) != 0 ||
			int64(at/mem.Offset(cellSize)) >= a.cells.used {
			return fmt.Errorf("the cell at %d is taken twice, or there is none", at)
		}
		taken[at] = true
		return nil
	}
	for _, x := range a.blocks {
		if x.cell {
			if err := hold(x.from); err != nil {
				return err
			}
		}
	}
	for _, at := range a.cells.free {
		if err := hold(at); err != nil {
			return err
		}
	}
	if int64(len(taken)) != a.cells.used || a.cells.used > a.cells.most {
		return fmt.Errorf("%d cells are held, %d were used, of %d", len(taken), a.cells.used,
			a.cells.most)
	}
	return nil
}

// checkSums: the statistics are sums over the blocks, and within the device.
func (a *Allocator) checkSums() error {
	want := baseline.Stats{Reserved: a.own.Reserved, Segments: a.own.Segments, OOMs: a.own.OOMs}
	for _, x := range a.blocks {
		want.Active += mem.Round(x.asked)
		want.Requested += x.asked
		if !x.freed {
			want.Allocated += mem.Round(x.asked)
		}
	}
	if want != a.own {
		return fmt.Errorf("the statistics say %+v, the blocks %+v", a.own, want)
	}
	if s := a.Stats(); s.PeakReserved > a.opt.Capacity || s.Allocated > s.PeakAllocated {
		return fmt.Errorf("a statistic is beyond its peak or the device: %+v", s)
	}
	return nil
}
