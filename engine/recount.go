package engine

import "fmt"

// checkView compares the pages of a view with the lists of their handles, and its
// runs with the complement of their occupancy. It returns the number of runs.
func (e *Engine) checkView(x uint32, taken []occupancy) (int, error) {
	v := &e.views[x]
	free := 0
	seen := make(map[uint32]bool, v.n)
	var lo, hi unit // the free range that is growing
	runs := 0
	flush := func() error {
		if lo == hi {
			return nil
		}
		runs++
		r := e.locate(lo)
		if r == 0 || e.runs[r].view != x || e.runs[r].start() != lo || e.runs[r].end() != hi {
			return fmt.Errorf("view %d: units [%d, %d) are free but no run", x, lo, hi)
		}
		return nil
	}
	for p := v.base; p < v.base+v.n; p++ {
		c := e.pages[p].handle
		if c == 0 {
			continue
		}
		if e.pages[p].view != x || seen[c] || e.handles[c].heap == 0 {
			return 0, fmt.Errorf("view %d: page %d maps handle %d, page of view %d, seen %t", x, p, c, e.pages[p].view, seen[c])
		}
		seen[c] = true
		if !e.lists(c, p) {
			return 0, fmt.Errorf("page %d is not among those of its handle %d", p, c)
		}
		if e.handles[c].heap != v.heap {
			continue
		}
		if e.handles[c].used == 0 {
			free++
		}
		for u := unit(0); u < pageUnits; {
			u += taken[c].stretch(u, ^uint64(0))
			n := taken[c].stretch(u, 0)
			if n == 0 {
				break
			}
			at := unit(p)<<pageShift + u
			if at != hi {
				if err := flush(); err != nil {
					return 0, err
				}
				lo = at
			}
			hi = at + n
			u += n
		}
	}
	if err := flush(); err != nil {
		return 0, err
	}
	if free != v.free {
		return 0, fmt.Errorf("view %d has %d wholly free pages, counted as %d", x, free, v.free)
	}
	return runs, nil
}

func (e *Engine) lists(c, p uint32) bool {
	for q := e.handles[c].alias; q != 0; q = e.pages[q].next {
		if q == p {
			return true
		}
	}
	return false
}

// checkIndexes counts what the indexes hold: with every run found by its place,
// equal numbers mean that nothing is there twice or left over.
func (e *Engine) checkIndexes(runs, shared int) error {
	mapped, links, views, blocks, fences := 0, 0, 0, 0, 0
	byPlace := 0
	for p := range e.pages {
		if e.pages[p].handle != 0 {
			mapped++
		}
		byPlace += e.count(e.pages[p].root, byAddr)
		if got, ok := e.starts.floor(uint32(p)); (ok && got == uint32(p)) != (e.pages[p].root != 0) {
			return fmt.Errorf("page %d: the bit for runs that start here is wrong", p)
		}
	}
	for x := range e.handles {
		before := links
		big := 0
		for q := e.handles[x].alias; q != 0; q = e.pages[q].next {
			links++
			if e.views[e.pages[q].view].big {
				big++
			}
		}
		if n := links - before; n != int(e.handles[x].aliases) || big != int(e.handles[x].big) {
			return fmt.Errorf("handle %d is mapped by %d pages, %d of big views, counted as %d and %d", x, n, big, e.handles[x].aliases, e.handles[x].big)
		}
	}
	bySizes := 0
	for i := range e.heaps {
		for l := range e.heaps[i].sizes {
			s := &e.heaps[i].sizes[l]
			for c, root := range s.root {
				if (root != 0) != (s.some[c>>6]>>(c&63)&1 == 1) {
					return fmt.Errorf("heap %d: the bit of size class %d is wrong", i, c)
				}
				bySizes += e.count(root, bySize)
			}
		}
		for _, v := range e.heaps[i].views {
			for ; v != 0; v = e.views[v].next {
				views++
				blocks += e.views[v].blocks
				if f := e.views[v].fence; f != 0 {
					fences++
					if e.fenceAt.get(f) != viewFence|v {
						return fmt.Errorf("fence %d does not lead to view %d", f, v)
					}
				}
			}
		}
	}
	if byPlace != runs || bySizes != shared {
		return fmt.Errorf("%d runs, %d by place; %d of shared views, %d by size", runs, byPlace, shared, bySizes)
	}
	for b := range e.blocks {
		if e.blocks[b].state == blockPending {
			fences += int(e.blocks[b].fences)
		}
	}
	if fences != e.fenceAt.used {
		return fmt.Errorf("%d fences are waited for, %d are known", fences, e.fenceAt.used)
	}
	if mapped != e.stats.Mapped || links != mapped || views != e.stats.Views || blocks != e.stats.Blocks {
		return fmt.Errorf("%d pages mapped, %d linked, counted as %d; %d views, counted as %d; %d blocks in them, counted as %d",
			mapped, links, e.stats.Mapped, views, e.stats.Views, blocks, e.stats.Blocks)
	}
	return nil
}

// count returns the number of nodes of a treap.
func (e *Engine) count(root uint32, by int) int {
	if root == 0 {
		return 0
	}
	return 1 + e.count(e.runs[root].kid[by][0], by) + e.count(e.runs[root].kid[by][1], by)
}
