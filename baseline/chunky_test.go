package baseline

import (
	"sort"

	"stalloc/internal/mem"
)

// chunky is the slow model of GMLake: every chunk has its own flag and its own
// list of blocks that map it, as in the original, and every question is a walk
// over all blocks. The small pool is the naive model's.
type chunky struct {
	o       Options
	small   *naive
	vm      mem.Offset
	blocks  []*cblock // pBlocks and sBlocks, all that exist
	virtual mem.Bytes
	taken   map[int]*cblock
	inSmall map[int]int
	ids     int
	events  []*nevent
	stats   Stats
	extra   int64 // stitches ever made
}

type cchunk struct {
	free   bool
	owner  *cblock
	mapped []*cblock // sBlocks
}

type cblock struct {
	addr       mem.Offset
	stream     mem.StreamID
	chunks     []*cchunk
	stitched   bool
	live       bool // allocated, or waiting, or in use under an sBlock
	doomed     bool
	used       int // leading chunks in use
	asked      mem.Bytes
	charge     mem.Bytes
	waiting    bool
	deferred   bool
	extra      []mem.StreamID
	prev, next *cblock
}

func (b *cblock) size() mem.Bytes { return mem.Bytes(len(b.chunks)) << 21 }

// allFree is asked of the chunks themselves, never of a counter.
func (b *cblock) allFree() bool {
	for _, c := range b.chunks {
		if !c.free {
			return false
		}
	}
	return true
}

func newChunky(o Options) *chunky {
	o = o.withDefaults()
	o.GCThreshold = 0
	return &chunky{o: o, small: newNaive(o, false), taken: map[int]*cblock{}, inSmall: map[int]int{}}
}

func (m *chunky) pick(stitched bool, stream mem.StreamID, ok func(*cblock) bool) []*cblock {
	var out []*cblock
	for _, b := range m.blocks {
		if b.stitched == stitched && b.stream == stream && ok(b) {
			out = append(out, b)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].size() < out[j].size() || out[i].size() == out[j].size() && out[i].addr < out[j].addr
	})
	return out
}

func (m *chunky) freePBlocks(stream mem.StreamID) []*cblock {
	return m.pick(false, stream, func(b *cblock) bool { return !b.live })
}

// resident is the memory of all chunks that some block maps.
func (m *chunky) resident() mem.Bytes {
	seen := map[*cchunk]bool{}
	for _, b := range m.blocks {
		for _, c := range b.chunks {
			seen[c] = true
		}
	}
	return mem.Bytes(len(seen))<<21 + m.small.reserved()
}

func (m *chunky) reserved() mem.Bytes {
	sum := m.small.reserved()
	for _, b := range m.blocks {
		if !b.stitched {
			sum += b.size()
		}
	}
	return sum
}

func (m *chunky) current() Stats {
	s := m.small.current()
	segments := m.extra
	for _, b := range m.blocks {
		if b.stitched {
			if b.live {
				s.Requested += b.asked
			}
		} else {
			if b.prev == nil {
				segments++
			}
			switch {
			case b.live:
				s.Active += b.size()
				s.Requested += b.asked
			case b.prev != nil || b.next != nil:
				s.InactiveSplit++
				s.InactiveSplitBytes += b.size()
			}
		}
		if b.charge > 0 && !b.waiting {
			s.Allocated += b.charge
		}
	}
	s.Segments += segments
	s.Reserved, s.Physical = m.reserved(), m.resident()
	s.Retries, s.OOMs = m.stats.Retries, m.stats.OOMs
	s.PeakAllocated = max(m.stats.PeakAllocated, s.Allocated)
	s.PeakActive = max(m.stats.PeakActive, s.Active)
	s.PeakRequested = max(m.stats.PeakRequested, s.Requested)
	s.PeakReserved = max(m.stats.PeakReserved, s.Reserved)
	s.PeakPhysical = max(m.stats.PeakPhysical, s.Physical)
	m.stats = s
	return s
}

// setChunk turns a chunk's flag and insists that it turns.
func setChunk(c *cchunk, free bool) {
	if c.free == free {
		panic("chunk model: a chunk is used twice or freed twice")
	}
	c.free = free
}

// split keeps the first n chunks in b and returns a new block of the others.
func (m *chunky) split(b *cblock, n int) *cblock {
	hi := &cblock{addr: b.addr + mem.Offset(n)<<21, stream: b.stream, chunks: b.chunks[n:], prev: b, next: b.next}
	if hi.next != nil {
		hi.next.prev = hi
	}
	b.next, b.chunks = hi, b.chunks[:n:n]
	for _, c := range hi.chunks {
		c.owner = hi
	}
	m.blocks = append(m.blocks, hi)
	return hi
}

func (m *chunky) join(lo, hi *cblock) {
	lo.chunks = append(lo.chunks[:len(lo.chunks):len(lo.chunks)], hi.chunks...)
	for _, c := range hi.chunks {
		c.owner = lo
	}
	if lo.next = hi.next; lo.next != nil {
		lo.next.prev = lo
	}
	m.forget(hi)
}

func (m *chunky) forget(b *cblock) {
	for i := range m.blocks {
		if m.blocks[i] == b {
			m.blocks = append(m.blocks[:i:i], m.blocks[i+1:]...)
			return
		}
	}
}

func (m *chunky) unstitch(s *cblock) {
	m.virtual -= s.size()
	for _, c := range s.chunks {
		for i := range c.mapped {
			if c.mapped[i] == s {
				c.mapped = append(c.mapped[:i:i], c.mapped[i+1:]...)
				break
			}
		}
	}
	m.forget(s)
}
