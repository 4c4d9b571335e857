package onerange

import (
	"cmp"
	"fmt"
	"slices"

	"stalloc/engine/index"
)

// piece is part of an arena that something claims.
type piece struct {
	lo, hi unit
	what   string
}

// Check recounts the invariants (package documentation) and returns the first that does not hold.
func (e *Engine) Check() error {
	pieces := make([][]piece, len(e.arenas))
	load := make([]unit, len(e.arenas))
	for b := range e.idx.Blocks() {
		what := fmt.Sprintf("block at %d", b.At)
		if got, ok := e.idx.Block(b.At); !ok || got != b {
			return fmt.Errorf("%s is found as %+v", what, got)
		}
		load[b.Arena] += b.Size
		k := e.kept[b.At]
		if k == nil || k.view == 0 {
			pieces[b.Arena] = append(pieces[b.Arena], piece{b.At, b.At + b.Size, what})
			continue
		}
		if v := &e.views[k.view]; v.block != b.At || v.arena != b.Arena || v.at > b.At ||
			b.At-v.at >= e.handles[v.handles[0]].size || v.size < b.At+b.Size-v.at {
			return fmt.Errorf("%+v lies in %+v", b, *v)
		}
		e.parts(k.view, b.At, b.Size, func(lo, hi unit) {
			pieces[b.Arena] = append(pieces[b.Arena], piece{lo, hi, what})
		})
	}
	for at, k := range e.kept {
		b, ok := e.idx.Block(at)
		fences := 0
		for _, of := range e.fenceOf {
			if of.view == 0 && of.lent == nil && of.at == at {
				fences++
			}
		}
		if !ok || b.State == index.Fast || fences != k.fences ||
			(b.State == index.Pending) != (fences > 0) {
			return fmt.Errorf("%+v with %d fences is kept as %+v", b, fences, *k)
		}
	}
	var total unit
	for s := range e.allArenas() {
		if err := e.checkArena(s, pieces[s], load[s]); err != nil {
			return fmt.Errorf("arena %d: %w", s, err)
		}
		total += e.arenas[s].held
	}
	for _, h := range e.unmapped {
		if e.handles[h].arena != 0 {
			return fmt.Errorf("handle %d is unmapped and has a place: %+v", h, e.handles[h])
		}
		total += e.handles[h].size
	}
	for h, x := range e.handles {
		if !x.rests {
			continue
		}
		if x.arena != 0 || slices.Contains(e.unmapped, uint32(h)) {
			return fmt.Errorf("handle %d rests: %+v", h, x)
		}
		total += x.size
	}
	var leaving unit
	for _, of := range e.fenceOf {
		leaving += e.units(of.lent)
	}
	if leaving != e.lentPending {
		return fmt.Errorf("%d units are lent, counted %d", e.lentPending, leaving)
	}
	total += leaving
	if total != e.held {
		return fmt.Errorf("%d units held, of handles %d", e.held, total)
	}
	return e.checkViews()
}

func (e *Engine) checkArena(s uint32, claimed []piece, load unit) error {
	x := e.idx.Room(s)
	var free unit
	last := index.Gap{}
	for g := range e.idx.Gaps(s) {
		if g.Size() < last.Size() || g.Size() == last.Size() && g.Lo <= last.Lo ||
			e.idx.Gap(s, g.Hi-1) != g {
			return fmt.Errorf("gap %+v after %+v", g, last)
		}
		if e.idx.Gap(s, g.Lo-1).Size() > 0 {
			return fmt.Errorf("a gap touches %+v", g)
		}
		last = g
		free += g.Size()
		claimed = append(claimed, piece{g.Lo, g.Hi, "gap"})
	}
	if free != x.Free || load != x.Load {
		return fmt.Errorf("free %d counted %d; load %d counted %d", x.Free, free, x.Load, load)
	}
	var places []piece
	for h := 1; h < len(e.handles); h++ {
		x := &e.handles[h]
		if x.arena != s || x.size == 0 {
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
	if c := &e.arenas[s]; sum != c.held || sum > c.peakHeld {
		return fmt.Errorf("%d units held, %d at most, counted %d", c.held, c.peakHeld, sum)
	}
	for x := range e.views {
		if v := &e.views[x]; v.arena == s && v.inArena {
			places = append(places, piece{v.at, v.at + v.size, fmt.Sprintf("view %d", x)})
		}
	}
	for _, v := range e.arenas[s].voids {
		places = append(places, piece{v.lo, v.hi, "void"})
	}
	_, err = tile(places)
	return err
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

func (e *Engine) checkViews() error {
	aliases := make([]int32, len(e.handles))
	for x := 1; x < len(e.views); x++ {
		v := &e.views[x]
		if v.arena == 0 {
			continue
		}
		var size unit
		for _, h := range v.handles {
			size += e.handles[h].size
			aliases[h]++
		}
		if size != v.size || v.block != 0 && e.kept[v.block].view != uint32(x) {
			return fmt.Errorf("view %d: %+v has handles of %d", x, *v, size)
		}
		if v.fence != 0 && e.fenceOf[v.fence].view != uint32(x) {
			return fmt.Errorf("the fence of view %d is not known", x)
		}
	}
	for h := range aliases {
		if e.handles[h].aliases < aliases[h] {
			return fmt.Errorf("handle %d: %d aliases, counted %d", h, e.handles[h].aliases,
				aliases[h])
		}
	}
	return nil
}
