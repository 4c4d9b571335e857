package gmlake

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
)

// model is a slow twin of the pool, without its driver: every chunk has its own flag
// and its own list of blocks that map it, as in the original, and every question is a
// walk over all blocks. A small segment has a chunk for each 512 bytes. Addresses follow
// each other, those of a growth that the device is too small for included.
type model struct {
	cfg     Config
	pages   int // of the device
	next    mem.Addr
	blocks  []*modelBlock // all that exist
	virtual mem.Bytes
	doomed  int // so far
}

type modelChunk struct {
	free  bool
	owner *modelBlock
	over  []*modelBlock
}

type modelBlock struct {
	addr           mem.Addr
	stream         mem.StreamID
	small          bool
	stitched       bool
	live           bool // handed out, or in use under an sBlock
	doomed         bool
	used           int // leading chunks in use
	chunks         []*modelChunk
	before, behind *modelBlock
}

func (b *modelBlock) grain() mem.Bytes {
	if b.small {
		return mem.Grain
	}
	return pageSize
}

func (b *modelBlock) size() mem.Bytes { return mem.Bytes(len(b.chunks)) * b.grain() }
func (b *modelBlock) whole() bool     { return b.before == nil && b.behind == nil }

// allFree asks the chunks themselves.
func (b *modelBlock) allFree() bool {
	return !slices.ContainsFunc(b.chunks, func(c *modelChunk) bool { return !c.free })
}

// held counts the pages of segments, and those that a doomed sBlock keeps.
func (m *model) held() int {
	segments, kept := mem.Bytes(0), map[*modelChunk]bool{}
	for _, b := range m.blocks {
		if !b.stitched {
			segments += b.size()
		}
		for _, c := range b.chunks {
			if c.owner == nil {
				kept[c] = true
			}
		}
	}
	return int(segments/pageSize) + len(kept)
}

// pick returns the blocks that may serve, by size and address.
func (m *model) pick(stream mem.StreamID, ok func(*modelBlock) bool) []*modelBlock {
	var out []*modelBlock
	for _, b := range m.blocks {
		if !b.live && b.stream == stream && ok(b) {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b *modelBlock) int {
		return cmp.Or(cmp.Compare(a.size(), b.size()), cmp.Compare(a.addr, b.addr))
	})
	return out
}

func (m *model) alloc(size mem.Bytes, stream mem.StreamID) *modelBlock {
	n := mem.RoundUp(max(size, 1), mem.Grain)
	small, segment := n <= 1<<20, mem.Bytes(2<<20)
	if !small {
		n = mem.RoundUp(n, pageSize)
		if segment = n; n < 10<<20 {
			segment = 20 << 20
		}
	}
	search := func() *modelBlock {
		if fit := m.pick(stream,
			func(b *modelBlock) bool {
				return !b.stitched && b.small == small &&
					b.size() >= n
			}); len(fit) > 0 {
			return fit[0]
		}
		idle := m.pick(stream, func(b *modelBlock) bool {
			return b.stitched && b.allFree() &&
				b.size() >= n
		})
		if small || len(idle) == 0 || float64(idle[0].size()) > float64(n)*m.cfg.ReuseLimit {
			return nil
		}
		m.reuse(idle[0], int(n/pageSize))
		return idle[0]
	}
	stitch := func(stage int) func() *modelBlock {
		return func() *modelBlock {
			if small || stage < m.cfg.DefragLevel || n < m.cfg.FragLimit {
				return nil
			}
			return m.stitch(n, stream)
		}
	}
	grow := func() *modelBlock { return m.grow(segment, small, stream) }
	flush := func() *modelBlock { m.flush(); return nil }
	var b *modelBlock
	for _, try := range []func() *modelBlock{search, stitch(0), grow, stitch(1), flush, grow,
		stitch(2)} {
		if b = try(); b != nil {
			break
		}
	}
	if b == nil || b.stitched {
		return b
	}
	if keep := int(n / b.grain()); len(b.chunks) > keep {
		m.split(b, keep)
	}
	for _, c := range b.chunks {
		c.turn(false)
	}
	b.live, b.used = true, len(b.chunks)
	return b
}

// turn insists that a chunk is not used twice, or freed twice.
func (c *modelChunk) turn(free bool) {
	if c.free == free {
		panic("model: a chunk is used or freed twice")
	}
	c.free = free
}

// split keeps the first n chunks in b and returns a block of the others.
func (m *model) split(b *modelBlock, n int) *modelBlock {
	hi := &modelBlock{addr: b.addr + mem.Addr(mem.Bytes(n)*b.grain()), stream: b.stream,
		small: b.small, chunks: b.chunks[n:], before: b, behind: b.behind}
	if hi.behind != nil {
		hi.behind.before = hi
	}
	b.behind, b.chunks = hi, b.chunks[:n:n]
	for _, c := range hi.chunks {
		c.owner = hi
	}
	m.blocks = append(m.blocks, hi)
	return hi
}

func (m *model) join(lo, hi *modelBlock) {
	lo.chunks = slices.Concat(lo.chunks, hi.chunks)
	for _, c := range hi.chunks {
		c.owner = lo
	}
	if lo.behind = hi.behind; lo.behind != nil {
		lo.behind.before = lo
	}
	m.forget(hi)
}

func (m *model) forget(b *modelBlock) {
	m.blocks = slices.DeleteFunc(m.blocks, func(x *modelBlock) bool { return x == b })
}

func (m *model) grow(size mem.Bytes, small bool, stream mem.StreamID) *modelBlock {
	b := &modelBlock{addr: m.next, stream: stream, small: small}
	m.next += mem.Addr(size)
	if m.held()+int(size/pageSize) > m.pages {
		return nil
	}
	for range size / b.grain() {
		b.chunks = append(b.chunks, &modelChunk{free: true, owner: b})
	}
	m.blocks = append(m.blocks, b)
	return b
}

// reuse takes the first keep chunks of an idle sBlock, and cuts their pBlocks.
func (m *model) reuse(s *modelBlock, keep int) {
	var owners []*modelBlock
	for _, c := range s.chunks[:keep] {
		c.turn(false)
		if !slices.Contains(owners, c.owner) {
			owners = append(owners, c.owner)
		}
	}
	for _, p := range owners {
		for p != nil {
			run := 1
			for run < len(p.chunks) && p.chunks[run].free == p.chunks[0].free {
				run++
			}
			var rest *modelBlock
			if run < len(p.chunks) {
				rest = m.split(p, run)
			}
			p.live = !p.chunks[0].free
			p = rest
		}
	}
	s.live, s.used = true, keep
}

// stitch maps the chunks of the largest free pBlocks after each other.
func (m *model) stitch(n mem.Bytes, stream mem.StreamID) *modelBlock {
	from := m.pick(stream, func(b *modelBlock) bool { return !b.small && !b.stitched })
	total := mem.Bytes(0)
	for _, b := range from {
		total += b.size()
	}
	if len(from) < 2 || total < n {
		return nil
	}
	s := &modelBlock{addr: m.next, stream: stream, stitched: true, live: true}
	m.next += mem.Addr(n)
	for i := len(from) - 1; s.size() < n; i-- {
		p := from[i]
		if short := int((n - s.size()) / pageSize); short < len(p.chunks) {
			m.split(p, short)
		}
		p.live = true
		for _, c := range p.chunks {
			c.turn(false)
			c.over = append(c.over, s)
		}
		s.chunks = append(s.chunks, p.chunks...)
	}
	s.used = len(s.chunks)
	m.blocks = append(m.blocks, s)
	if m.virtual += n; m.virtual > m.cfg.AutoGC {
		m.dropIdle()
	}
	return s
}

func (m *model) free(b *modelBlock) {
	used := b.chunks[:b.used]
	b.live, b.used = false, 0
	var whole []*modelBlock
	if !b.stitched {
		whole = append(whole, b)
	}
	for _, c := range used {
		c.turn(true)
		if b.stitched && c.owner.live && c.owner.allFree() {
			c.owner.live = false
			whole = append(whole, c.owner)
		}
	}
	if b.doomed {
		m.unstitch(b)
	}
	for _, p := range whole {
		if p.before != nil && !p.before.live {
			p = p.before
			m.join(p, p.behind)
		}
		if p.behind != nil && !p.behind.live {
			m.join(p, p.behind)
		}
	}
}

func (m *model) unstitch(s *modelBlock) {
	m.virtual -= s.size()
	for _, c := range s.chunks {
		c.over = slices.DeleteFunc(c.over, func(o *modelBlock) bool { return o == s })
	}
	m.forget(s)
}

func (m *model) dropIdle() {
	for _, s := range slices.Clone(m.blocks) {
		if s.stitched && !s.live {
			m.unstitch(s)
		}
	}
}

// flush returns the segments that are wholly free.
func (m *model) flush() {
	for _, b := range slices.Clone(m.blocks) {
		if b.stitched || b.live || !b.whole() {
			continue
		}
		for _, c := range b.chunks {
			c.owner = nil
			for _, s := range slices.Clone(c.over) {
				if !s.live {
					m.unstitch(s)
				} else if !s.doomed {
					s.doomed = true
					m.doomed++
				}
			}
		}
		m.forget(b)
	}
}
