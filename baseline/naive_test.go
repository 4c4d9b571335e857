package baseline

import (
	"sort"

	"stalloc/internal/mem"
)

// naive is the slow model of Native and Expandable. It keeps only what is
// taken, as intervals, and which pages are mapped. Free and unmapped blocks are
// not kept at all: they are whatever lies between, worked out anew for every
// question, so nothing can be lost, merged wrongly or filed wrongly.
type naive struct {
	o        Options
	exp      bool
	segs     []*nseg
	next     mem.Offset // of what goes up
	top      mem.Offset // of what goes down
	taken    map[int]*ntaken
	ids      int
	events   []*nevent
	searches [2]int64
	born     map[mem.Offset]int64 // when the free block there was last put back
	stats    Stats
}

type nseg struct {
	base   mem.Offset
	size   mem.Bytes
	stream mem.StreamID
	small  bool
	in     []*ntaken
	mapped []bool // by page; expandable only
}

type ntaken struct {
	seg      *nseg
	addr     mem.Offset
	size     mem.Bytes
	asked    mem.Bytes
	waiting  bool
	deferred bool
	extra    []mem.StreamID
}

type nevent struct {
	id     int
	stream mem.StreamID
	queued bool // on the stream; else the block's own
	passed bool
}

// ngap is a stretch with nothing taken in it, all mapped or all not.
type ngap struct {
	seg    *nseg
	addr   mem.Offset
	size   mem.Bytes
	mapped bool
}

func newNaive(o Options, exp bool) *naive {
	return &naive{o: o.withDefaults(), exp: exp, taken: map[int]*ntaken{},
		born: map[mem.Offset]int64{}}
}

func (m *naive) unit(small bool) mem.Bytes {
	switch {
	case !m.exp:
		return 512
	case small:
		return 2 << 20
	}
	return 20 << 20
}

// gaps of a segment, in address order.
func (m *naive) gaps(s *nseg) []ngap {
	sort.Slice(s.in, func(i, j int) bool { return s.in[i].addr < s.in[j].addr })
	var out []ngap
	add := func(from, to mem.Offset) {
		for from < to {
			g := ngap{seg: s, addr: from, mapped: true}
			end := to
			if m.exp {
				p := int64(m.unit(s.small))
				page := int64(from-s.base) / p
				g.mapped = s.mapped[page]
				for int(page) < len(s.mapped) && s.mapped[page] == g.mapped {
					page++
				}
				end = min(to, s.base+mem.Offset(page*p))
			}
			g.size = mem.Bytes(end - from)
			out = append(out, g)
			from = end
		}
	}
	at := s.base
	for _, t := range s.in {
		if t.addr < at {
			panic("naive model: blocks overlap")
		}
		add(at, t.addr)
		at = t.addr + mem.Offset(t.size)
	}
	add(at, s.base+mem.Offset(s.size))
	return out
}

// free blocks of a pool and stream, by size and address.
func (m *naive) free(small bool, stream mem.StreamID) []ngap {
	var out []ngap
	for _, s := range m.segs {
		if s.small == small && s.stream == stream {
			for _, g := range m.gaps(s) {
				if g.mapped {
					out = append(out, g)
				}
			}
		}
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].size < out[j].size || out[i].size == out[j].size && out[i].addr < out[j].addr
	})
	return out
}

func (g ngap) whole() bool { return g.addr == g.seg.base && g.size == g.seg.size }

func nround(o *Options, r mem.Bytes) mem.Bytes {
	if r < 512 {
		return 512
	}
	bin := 0
	for bin < 15 && r >= mem.Bytes(2<<20)<<bin {
		bin++
	}
	d := mem.Bytes(o.Roundup[bin])
	if d > 1 && r > 512*d {
		power := mem.Bytes(1)
		for power*2 <= r {
			power *= 2
		}
		n := power
		for n < r {
			n += power / d
		}
		return n
	}
	return (r + 511) / 512 * 512
}

func nsegment(n mem.Bytes) mem.Bytes {
	switch {
	case n <= 1<<20:
		return 2 << 20
	case n < 10<<20:
		return 20 << 20
	}
	return (n + 1<<21 - 1) >> 21 << 21
}

func (m *naive) reserved() mem.Bytes {
	var sum mem.Bytes
	for _, s := range m.segs {
		if !m.exp {
			sum += s.size
		}
		for _, on := range s.mapped {
			if on {
				sum += m.unit(s.small)
			}
		}
	}
	return sum
}

// current recounts the statistics; the counters and peaks are kept.
func (m *naive) current() Stats {
	s := m.stats
	s.Allocated, s.Active, s.Requested, s.Segments, s.InactiveSplit, s.InactiveSplitBytes = 0, 0, 0,
		0, 0, 0
	for _, t := range m.taken {
		s.Active += t.size
		s.Requested += t.asked
		if !t.waiting {
			s.Allocated += t.size
		}
	}
	s.Reserved = m.reserved()
	if !m.exp {
		s.Segments = int64(len(m.segs))
		for _, seg := range m.segs {
			for _, g := range m.gaps(seg) {
				if !g.whole() {
					s.InactiveSplit++
					s.InactiveSplitBytes += g.size
				}
			}
		}
	}
	s.PeakAllocated = max(s.PeakAllocated, s.Allocated)
	s.PeakActive = max(s.PeakActive, s.Active)
	s.PeakRequested = max(s.PeakRequested, s.Requested)
	s.PeakReserved = max(s.PeakReserved, s.Reserved)
	m.stats = s
	return s
}
