package baseline

// atom is a run of chunks of one segment over which every sBlock lies whole or
// not at all. The atoms of a segment are linked in address order. A block
// boundary or the end of an sBlock inside an atom divides it; neighbours inside
// one pBlock that no sBlock maps become one again.
//
//	segment   | 3 |    5    | 2 |        atoms, in chunks
//	pBlocks   [  p ][    q      ]        p: 3, q: 5 + 2
//	mappings    s      s,t    -          s maps 3 and 5, t maps 5
type atom struct {
	chunks     int64
	prev, next int32
	owner      int32 // the pBlock, on its first atom; none on the others
	maps       int32 // mappings over it
	used       bool  // reuse: among the chunks being taken
	ghost      bool  // its pBlock was given back; only live sBlocks keep the memory
}

// mapping says that an sBlock lies over an atom. It is in two lists: those of
// the sBlock, in the order of its addresses, and those of the atom.
type mapping struct {
	stitch, atom int32
	nextInStitch int32
	prev, next   int32 // in the atom's list
}

func (g *GMLake) newAtom(chunks int64) int32 {
	a := record(&g.atoms, &g.spareAtoms)
	g.atoms[a] = atom{chunks: chunks, prev: none, next: none, owner: none, maps: none}
	return a
}

// record returns the index of a record to fill in.
func record[T any](records *[]T, spare *[]int32) int32 {
	if k := len(*spare); k > 0 {
		i := (*spare)[k-1]
		*spare = (*spare)[:k-1]
		return i
	}
	*records = append(*records, *new(T))
	return int32(len(*records) - 1)
}

// cutAtom divides an atom after its first n chunks and returns the later part.
// Every sBlock over it lies over both parts.
func (g *GMLake) cutAtom(a int32, n int64) int32 {
	b := g.newAtom(g.atoms[a].chunks - n)
	lo, hi := &g.atoms[a], &g.atoms[b]
	lo.chunks = n
	hi.prev, hi.next = a, lo.next
	hi.used = lo.used
	if lo.next != none {
		g.atoms[lo.next].prev = b
	}
	lo.next = b
	for m := lo.maps; m != none; m = g.maps[m].next {
		g.addMapping(g.maps[m].stitch, b, m)
	}
	return b
}

// addMapping puts an sBlock over an atom, after mapping last of that sBlock.
func (g *GMLake) addMapping(si, a, last int32) int32 {
	m := record(&g.maps, &g.spareMaps)
	at := &g.atoms[a]
	next := none
	if last == none {
		g.stitchs[si].first = m
	} else {
		next = g.maps[last].nextInStitch
		g.maps[last].nextInStitch = m
	}
	g.maps[m] = mapping{stitch: si, atom: a, nextInStitch: next, prev: none, next: at.maps}
	if at.maps != none {
		g.maps[at.maps].prev = m
	}
	at.maps = m
	return m
}

// removeMapping takes one mapping off its atom.
func (g *GMLake) removeMapping(m int32) {
	x := &g.maps[m]
	if x.prev == none {
		g.atoms[x.atom].maps = x.next
	} else {
		g.maps[x.prev].next = x.next
	}
	if x.next != none {
		g.maps[x.next].prev = x.prev
	}
	g.spareMaps = append(g.spareMaps, m)
}

// divided moves the atoms behind the cut to hi.
func (g *GMLake) divided(lo, hi int32) {
	if g.blocks[hi].pool == smallPool {
		return
	}
	first := g.blocks[hi].ext
	left := int64(g.blocks[lo].size / chunk)
	a := first
	for left > 0 && g.atoms[a].chunks <= left {
		left -= g.atoms[a].chunks
		a = g.atoms[a].next
	}
	if left > 0 {
		a = g.cutAtom(a, left)
	}
	g.blocks[lo].ext, g.blocks[hi].ext = first, a
	g.atoms[first].owner, g.atoms[a].owner = lo, hi
}

// merging hands the atoms of both blocks to whichever record survives: absorb
// keeps the one being freed, so both are told the common first atom.
func (g *GMLake) merging(lo, hi int32) {
	if g.blocks[lo].pool == smallPool {
		return
	}
	first, seam := g.blocks[lo].ext, g.blocks[hi].ext
	keep := lo
	if g.blocks[lo].state == free {
		keep = hi // the free one is the one that is absorbed
	}
	g.atoms[seam].owner = none
	g.atoms[first].owner = keep
	g.blocks[keep].ext = first
	g.joinAtom(seam)
}

// joinAtom makes an atom one with the one before it if they are alike.
func (g *GMLake) joinAtom(a int32) {
	at := &g.atoms[a]
	if at.prev == none || at.owner != none || at.maps != none || g.atoms[at.prev].maps != none {
		return
	}
	before := &g.atoms[at.prev]
	before.chunks += at.chunks
	before.next = at.next
	if at.next != none {
		g.atoms[at.next].prev = at.prev
	}
	g.spareAtoms = append(g.spareAtoms, a)
}

// take says to every sBlock over the pBlock that its chunks are in use now.
func (g *GMLake) take(i int32) { g.shift(i, -1) }

// give says that they are free.
func (g *GMLake) give(i int32) { g.shift(i, 1) }

func (g *GMLake) shift(i int32, sign int64) {
	left := int64(g.blocks[i].size / chunk)
	for a := g.blocks[i].ext; left > 0; a = g.atoms[a].next {
		g.shiftAtom(a, sign, none)
		left -= g.atoms[a].chunks
	}
}

// shiftAtom counts an atom as taken (-1) or given (1) in every sBlock but one.
func (g *GMLake) shiftAtom(a int32, sign int64, except int32) {
	at := &g.atoms[a]
	for m := at.maps; m != none; m = g.maps[m].next {
		if si := g.maps[m].stitch; si != except {
			g.stitchs[si].free += sign * at.chunks
			g.updateReady(si)
		}
	}
}
