// Package firstfit places boxes one after the other, each at the lowest offset that is free for all
// of its life, or in the smallest gap that is.
//
// # Idea
//
// What is placed is a list in the order of offsets. A box walks up that list: what lives while it
// does is in its way, and the first stretch between two of them that is high enough is its place.
// Most of the list does not live then. So the list is in chunks, and each knows when anything in it
// lives, as a mask of 64 stretches of time, and where the highest of it ends: chunks that are not
// in the way are not looked into. Offsets are those of a plain list.
package firstfit

import (
	"cmp"
	"math"
	"slices"

	"stalloc/plan/solve/dsa"
)

// Placer places boxes of one instance, over and over.
type Placer struct {
	Best   bool  // in the smallest gap that fits, not the lowest
	Looked int64 // entries looked at, ever

	in      *dsa.Instance
	chunks  []chunk
	used    int
	scratch []dsa.Piece
	blocked []stretch
}

// entry is a piece that is placed.
type entry struct {
	from, to int64
	lo, hi   int32
}

const chunkSize = 64

// chunk is what is known of some entries, which begin in the order of their offsets.
type chunk struct {
	mask    uint64
	top     int64 // where the highest ends
	n       int
	entries *[chunkSize]entry
}

type stretch struct{ from, to int64 }

// New returns a placer of nothing.
func New(in *dsa.Instance) *Placer { return &Placer{in: in} }

// Reset forgets what is placed.
func (p *Placer) Reset() { p.used = 0 }

// mask returns the stretches of time that a life touches.
func (p *Placer) mask(lo, hi int32) uint64 {
	ticks := int64(p.in.Ticks)
	from, to := int64(lo)*64/ticks, (int64(hi)-1)*64/ticks
	return (^uint64(0) << from) & (^uint64(0) >> (63 - to))
}

// Place returns where a box goes, and puts it there.
func (p *Placer) Place(box int32) int64 {
	at := p.Find(box)
	p.Put(box, at)
	return at
}

// Find returns where a box would go.
func (p *Placer) Find(box int32) int64 {
	if p.in.Pin != nil && p.in.Pin[box] != dsa.Free {
		return p.in.Pin[box]
	}
	if p.in.Pieces != nil && !p.in.Whole(box) {
		return p.among(box)
	}
	size, lo, hi := p.in.Size[box], p.in.Lo[box], p.in.Hi[box]
	mask := p.mask(lo, hi)
	low := int64(0) // all below is taken, or too low a gap
	best, bestSize := int64(-1), int64(math.MaxInt64)
	for c := range p.chunks[:p.used] {
		ch := &p.chunks[c]
		if ch.mask&mask == 0 || ch.top <= low {
			continue
		}
		p.Looked += int64(ch.n)
		for i := range ch.entries[:ch.n] {
			e := &ch.entries[i]
			if e.lo >= hi || e.hi <= lo || e.to <= low {
				continue
			}
			if gap := e.from - low; gap >= size {
				if !p.Best {
					return low
				}
				if gap < bestSize {
					best, bestSize = low, gap
				}
			}
			low = p.in.Fits(box, e.to)
		}
	}
	p.Looked++
	if best >= 0 {
		return best
	}
	return low
}

// among returns where a box with gaps goes: no piece of it may meet one that is placed.
func (p *Placer) among(box int32) int64 {
	p.blocked = p.blocked[:0]
	for _, x := range p.in.Of(box, p.scratch) {
		mask := p.mask(x.Lo, x.Hi)
		for c := range p.chunks[:p.used] {
			ch := &p.chunks[c]
			if ch.mask&mask == 0 {
				continue
			}
			p.Looked += int64(ch.n)
			for i := range ch.entries[:ch.n] {
				// offsets in between make them meet
				if e := &ch.entries[i]; e.lo < x.Hi && x.Lo < e.hi {
					p.blocked = append(p.blocked, stretch{e.from - x.To, e.to - x.From})
				}
			}
		}
	}
	slices.SortFunc(p.blocked, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
	low, best, bestSize := int64(0), int64(-1), int64(math.MaxInt64)
	for _, b := range p.blocked {
		if b.to <= low {
			continue
		}
		if gap := b.from - low; gap >= 0 && gap < bestSize {
			if !p.Best {
				return low
			}
			best, bestSize = low, gap
		}
		low = p.in.Fits(box, b.to)
	}
	p.Looked += int64(len(p.blocked)) + 1
	if best >= 0 {
		return best
	}
	return low
}

// Put places a box.
func (p *Placer) Put(box int32, at int64) {
	p.scratch = p.in.Of(box, p.scratch)
	for _, x := range p.scratch {
		p.insert(entry{at + x.From, at + x.To, x.Lo, x.Hi})
	}
	if p.in.Pieces != nil {
		p.scratch = nil // it is the instance's own
	}
}

func (p *Placer) insert(e entry) {
	if p.used == 0 {
		first := p.chunkAt(0)
		first.entries[0], first.n = e, 1
		p.summarize(first)
		return
	}
	// The last chunk that begins at or below the entry.
	c, _ := slices.BinarySearchFunc(p.chunks[:p.used], e.from, func(ch chunk, from int64) int {
		if ch.entries[0].from <= from {
			return -1
		}
		return 1
	})
	c = max(c-1, 0)
	ch := &p.chunks[c]
	if ch.n == chunkSize {
		next := p.chunkAt(c + 1)
		ch = &p.chunks[c]
		const half = chunkSize / 2
		next.n = copy(next.entries[:], ch.entries[half:])
		ch.n = half
		p.summarize(next)
		p.summarize(ch)
		if next.entries[0].from <= e.from {
			ch = next
		}
	}
	i := ch.n
	for ; i > 0 && ch.entries[i-1].from > e.from; i-- {
		ch.entries[i] = ch.entries[i-1]
	}
	ch.entries[i] = e
	ch.n++
	ch.mask |= p.mask(e.lo, e.hi)
	ch.top = max(ch.top, e.to)
}

// chunkAt makes room for a new chunk.
func (p *Placer) chunkAt(c int) *chunk {
	if p.used == len(p.chunks) {
		p.chunks = append(p.chunks, chunk{entries: new([chunkSize]entry)})
	}
	fresh := p.chunks[p.used].entries
	copy(p.chunks[c+1:p.used+1], p.chunks[c:p.used])
	p.used++
	p.chunks[c] = chunk{entries: fresh}
	return &p.chunks[c]
}

func (p *Placer) summarize(ch *chunk) {
	ch.mask, ch.top = 0, 0
	for _, e := range ch.entries[:ch.n] {
		ch.mask |= p.mask(e.lo, e.hi)
		ch.top = max(ch.top, e.to)
	}
}
