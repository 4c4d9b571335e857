package baseline

import "fmt"

// check: atoms tile the pBlocks, and every count of an sBlock is what its atoms
// say.
func (g *GMLake) check() error {
	owner := map[int32]int32{} // atom → pBlock
	var physical int64
	for i := range g.blocks {
		b := &g.blocks[i]
		if b.state == gone || b.stitched {
			continue
		}
		if b.pool == smallPool {
			physical += int64(b.size)
			continue
		}
		if err := g.checkAtoms(int32(i), owner); err != nil {
			return err
		}
		physical += int64(b.size)
	}
	ghosts := map[int32]bool{}
	for i := range g.blocks {
		if b := &g.blocks[i]; b.state != gone && b.stitched {
			if err := g.checkStitched(int32(i), owner, ghosts); err != nil {
				return err
			}
		}
	}
	for a := range ghosts {
		physical += g.atoms[a].chunks * int64(chunk)
	}
	if physical != int64(g.stats.Physical) {
		return fmt.Errorf("chunks and small segments add up to %d bytes, %d are counted", physical, g.stats.Physical)
	}
	return g.checkReady()
}

// checkAtoms walks one pBlock and its atoms' lists.
func (g *GMLake) checkAtoms(i int32, owner map[int32]int32) error {
	b := &g.blocks[i]
	where := Place{b.space, b.addr}
	left := int64(b.size / chunk)
	for a, before := b.ext, none; left > 0; a = g.atoms[a].next {
		at := &g.atoms[a]
		if _, twice := owner[a]; twice || at.chunks <= 0 || at.used || at.ghost ||
			(before == none) != (at.owner == i) || (before != none && (at.owner != none || at.prev != before)) {
			return fmt.Errorf("atom %d of the pBlock at %v is wrong: %+v", a, where, *at)
		}
		owner[a] = i
		for m, last := at.maps, none; m != none; last, m = m, g.maps[m].next {
			if g.maps[m].atom != a || g.maps[m].prev != last {
				return fmt.Errorf("a mapping over the pBlock at %v is misfiled: %+v", where, g.maps[m])
			}
		}
		left -= at.chunks
		before = a
	}
	if left < 0 {
		return fmt.Errorf("the last atom of the pBlock at %v reaches beyond it", where)
	}
	return nil
}

// checkStitched recounts one sBlock.
func (g *GMLake) checkStitched(i int32, owner map[int32]int32, ghosts map[int32]bool) error {
	b := &g.blocks[i]
	where := Place{b.space, b.addr}
	s := &g.stitchs[b.ext]
	holds := map[int32]bool{}
	var heldChunks int64
	for p := s.heldBy; p != none; p = g.blocks[p].chain {
		if holds[p] || g.blocks[p].state != held {
			return fmt.Errorf("the sBlock at %v holds a %v pBlock", where, g.blocks[p].state)
		}
		holds[p] = true
		heldChunks += int64(g.blocks[p].size / chunk)
	}
	var chunks, unused int64
	seen := map[int32]bool{}
	for m := s.first; m != none; m = g.maps[m].nextInStitch {
		a := g.maps[m].atom
		at := &g.atoms[a]
		p, owned := owner[a]
		if seen[a] || g.maps[m].stitch != b.ext || owned == at.ghost || at.ghost && !s.doomed {
			return fmt.Errorf("the sBlock at %v lies over a wrong atom: %+v", where, *at)
		}
		seen[a] = true
		if at.ghost {
			ghosts[a] = true
		}
		if leading := chunks < s.used; leading != (owned && holds[p]) {
			return fmt.Errorf("chunk %d of the sBlock at %v: in use is %v, held is %v", chunks, where, leading, !leading)
		}
		chunks += at.chunks
		if owned && g.blocks[p].state == free {
			unused += at.chunks
		}
	}
	isLive := b.state == live || b.state == waiting
	switch {
	case chunks != s.chunks || chunks*int64(chunk) != int64(b.size) || s.block != i:
		return fmt.Errorf("the sBlock at %v of %d bytes maps %d chunks, %d counted", where, b.size, chunks, s.chunks)
	case heldChunks != s.used || isLive != (s.used > 0) || !isLive && s.doomed:
		return fmt.Errorf("the %v sBlock at %v uses %d chunks and holds %d", b.state, where, s.used, heldChunks)
	case !s.doomed && unused != s.free:
		return fmt.Errorf("the sBlock at %v has %d free chunks, %d counted", where, unused, s.free)
	case s.isReady != (!isLive && unused == chunks):
		return fmt.Errorf("the %v sBlock at %v with %d of %d chunks free: ready is %v", b.state, where, unused, chunks, s.isReady)
	}
	return nil
}

// checkReady: the ready sets hold exactly the sBlocks marked as ready.
func (g *GMLake) checkReady() error {
	want, got := 0, 0
	var virtual int64
	for i := range g.blocks {
		b := &g.blocks[i]
		if b.state == gone || !b.stitched {
			continue
		}
		virtual += int64(b.size)
		if g.stitchs[b.ext].isReady {
			want++
			cur, ok := g.readySet(b.stream).ceil(entry{size: b.size, addr: b.addr})
			if !ok || g.readySet(b.stream).at(cur).block != int32(i) {
				return fmt.Errorf("the sBlock at %v is ready and not in the set", Place{b.space, b.addr})
			}
		}
	}
	for s := range g.ready {
		got += g.ready[s].count
	}
	if want != got || virtual != int64(g.virtual) {
		return fmt.Errorf("%d sBlocks are ready, %d are in the sets; %d bytes stitched, %d counted", want, got, virtual, g.virtual)
	}
	return nil
}
