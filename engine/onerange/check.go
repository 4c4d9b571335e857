package onerange

import (
	"cmp"
	"fmt"
	"slices"
)

// piece is part of a space that something claims.
type piece struct {
	lo, hi unit
	what   string
}

// Check recounts the invariants and returns the first that does not hold:
//
//   - the places of the handles and the voids tile the addresses of a space;
//   - gaps and blocks, live or pending, tile the places of its handles; gaps do not
//     touch, and each is found by address and by size; they are one list by address;
//   - the block of a view occupies the handles under it from the first on;
//   - held is the sum of all handles, those of spaces and spares.
func (e *Engine) Check() error {
	pieces := make([][]piece, len(e.spaces))
	load := make([]unit, len(e.spaces))
	for b := 1; b < len(e.blocks); b++ {
		c := &e.blocks[b]
		if c.state == blockGone {
			continue
		}
		if got := e.blockAt.get(c.at); got != uint32(b) {
			return fmt.Errorf("block %d at %d is found as %d", b, c.at, got)
		}
		what := fmt.Sprintf("block %d", b)
		load[c.space] += c.size
		if c.view == 0 {
			pieces[c.space] = append(pieces[c.space], piece{c.at, c.at + c.size, what})
			continue
		}
		if v := &e.views[c.view]; v.block != uint32(b) || v.space != c.space || v.at > c.at && !v.over || v.size < c.at+c.size-v.at {
			return fmt.Errorf("%+v lies in %+v", *c, *v)
		}
		e.parts(c.view, c.at, c.size, func(lo, hi unit) { pieces[c.space] = append(pieces[c.space], piece{lo, hi, what}) })
	}
	var total unit
	for s := 1; s < len(e.spaces); s++ {
		if err := e.checkSpace(uint32(s), pieces[s], load[s]); err != nil {
			return fmt.Errorf("space %d: %w", s, err)
		}
		total += e.spaces[s].held
	}
	for _, h := range e.spares {
		if e.handles[h].space != 0 {
			return fmt.Errorf("handle %d is spare and has a place: %+v", h, e.handles[h])
		}
		total += e.handles[h].size
	}
	if total != e.held {
		return fmt.Errorf("%d units held, of handles %d", e.held, total)
	}
	return e.checkViews()
}

func (e *Engine) checkSpace(s uint32, claimed []piece, load unit) error {
	c := &e.spaces[s]
	var free unit
	var err error
	last := unit(-1)
	walkGaps(e.gaps, c.free.addrs, byAddr, func(g uint32) {
		x := &e.gaps[g]
		if x.start() <= last || x.space != s || x.size() <= 0 {
			err = fmt.Errorf("gap [%d, %d) of space %d behind %d", x.start(), x.end(), x.space, last)
		}
		last = x.end()
		free += x.size()
		claimed = append(claimed, piece{x.start(), x.end(), "gap"})
		if got := atLeast(e.gaps, c.free.root[sizeClass(x.size())], x.key[bySize], bySize); got != g {
			err = fmt.Errorf("gap [%d, %d) is not found by its size", x.start(), x.end())
		}
	})
	n := 0
	for k := range c.free.root {
		if (c.free.root[k] != 0) != (c.free.some[k>>6]>>(k&63)&1 != 0) {
			err = fmt.Errorf("class %d is marked wrong", k)
		}
		walkGaps(e.gaps, c.free.root[k], bySize, func(uint32) { n++ })
	}
	walkGaps(e.gaps, c.free.addrs, byAddr, func(uint32) { n-- })
	if err != nil || n != 0 || free != c.units || load != c.load {
		return fmt.Errorf("%w; %d more gaps by size than by address; free %d counted %d; load %d counted %d", err, n, c.units, free, c.load, load)
	}
	if err := e.checkList(s, claimed); err != nil {
		return err
	}
	var places []piece
	for h := 1; h < len(e.handles); h++ {
		x := &e.handles[h]
		if x.space != s || x.size == 0 {
			continue
		}
		places = append(places, piece{x.at, x.at + x.size, fmt.Sprintf("handle %d", h)})
		for p := x.at / pageUnits; p < (x.at+x.size)/pageUnits; p++ {
			if e.pages[p] != uint32(h) {
				return fmt.Errorf("page %d of handle %d is known as that of %d", p, h, e.pages[p])
			}
		}
	}
	held, err := tile(claimed)
	if err != nil {
		return err
	}
	want, err := tile(places)
	if err != nil {
		return err
	}
	if !slices.Equal(held, want) {
		return fmt.Errorf("blocks and gaps cover %v, handles %v", held, want)
	}
	var sum unit
	for _, p := range want {
		sum += p.hi - p.lo
	}
	if sum != c.held {
		return fmt.Errorf("%d units held, counted %d", c.held, sum)
	}
	for _, v := range e.voids[s] {
		places = append(places, piece{v.lo, v.hi, "void"})
	}
	_, err = tile(places)
	return err
}

// checkList compares the list of a space with its gaps and the blocks in it.
func (e *Engine) checkList(s uint32, claimed []piece) error {
	n, last, prev := 0, unit(-1), link(0)
	for l := e.spaces[s].first; l != 0; n++ {
		at, next := e.at(l)
		back := e.gaps[l.gap()].prev
		if l.gap() == 0 {
			back = e.blocks[l>>1].prev
		}
		if at <= last || back != prev {
			return fmt.Errorf("element %d of the list, at %d, is behind %d at %d", l, at, prev, last)
		}
		last, prev, l = at, l, next
	}
	want := len(claimed)
	for x := 1; x < len(e.views); x++ {
		if v := &e.views[x]; v.space == s && v.block != 0 {
			e.parts(uint32(x), e.blocks[v.block].at, e.blocks[v.block].size, func(unit, unit) { want-- })
		}
	}
	if n != want || prev != e.spaces[s].last {
		return fmt.Errorf("%d elements are on the list, which ends at %d, want %d and %d", n, prev, want, e.spaces[s].last)
	}
	return nil
}

// tile joins pieces that touch; an error if two overlap.
func tile(pieces []piece) ([]piece, error) {
	slices.SortFunc(pieces, func(a, b piece) int { return cmp.Compare(a.lo, b.lo) })
	var out []piece
	for i, p := range pieces {
		if i > 0 && p.lo < pieces[i-1].hi {
			return nil, fmt.Errorf("%v and %v overlap", pieces[i-1], p)
		}
		if n := len(out); n > 0 && out[n-1].hi == p.lo {
			out[n-1].hi = p.hi
		} else {
			out = append(out, piece{p.lo, p.hi, ""})
		}
	}
	return out, nil
}

func walkGaps(nodes []gap, root uint32, by int, do func(uint32)) {
	if root != 0 {
		walkGaps(nodes, nodes[root].kid[by][0], by, do)
		do(root)
		walkGaps(nodes, nodes[root].kid[by][1], by, do)
	}
}

func (e *Engine) checkViews() error {
	aliases := make([]int32, len(e.handles))
	for x := 1; x < len(e.views); x++ {
		v := &e.views[x]
		if v.space == 0 {
			continue
		}
		var size unit
		for i, h := range v.handles {
			size += e.handles[h].size
			if !slices.Contains(v.holes, i) {
				aliases[h]++
			}
		}
		if size != v.size || v.block != 0 && e.blocks[v.block].view != uint32(x) {
			return fmt.Errorf("view %d: %+v has handles of %d", x, *v, size)
		}
		if v.fence != 0 && e.fenceAt.get(v.fence) != uint32(x)|viewFence {
			return fmt.Errorf("the fence of view %d is not known", x)
		}
	}
	for h := range aliases {
		if e.handles[h].aliases < aliases[h] {
			return fmt.Errorf("handle %d: %d aliases, counted %d", h, e.handles[h].aliases, aliases[h])
		}
	}
	return nil
}
