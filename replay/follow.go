package replay

import (
	"context"

	"stalloc/baseline"
	"stalloc/internal/mem"
	"stalloc/internal/without"
	"stalloc/trace"
)

// Seen is how an allocator stands behind one event of a trace.
type Seen struct {
	Event int // its place in the trace
	// Alloc: where the block lies; 0 for one of no bytes. Only differences mean something
	Addr     mem.Addr
	Reserved mem.Bytes // taken from the device
	Peak     mem.Bytes // the most so far
	Done     Done      // so far
	// Hit says that a plan served the request, Miss that there was a plan and it did not.
	Hit, Miss bool
}

// shown is a Target that can say where it stands.
type shown interface {
	place(id int64) mem.Addr
	reserved() mem.Bytes
	peak() mem.Bytes
	done() Done
	served() (hits, misses int64)
	used(at mem.Addr, size mem.Bytes, live bool) // a block came or went
}

// Follow is Replay that calls see after every event of the run, until the device is
// full if it comes to that, and held, unless that is nil, while an event comes to be
// done, for every range of addresses that gets memory or loses it. GMLake's ranges
// share memory, so it never calls held.
func (a Allocator) Follow(ctx context.Context, tr *trace.Trace, c Config, see func(Seen),
	held func(addr mem.Addr, size mem.Bytes, held bool)) (Result, error) {
	c.Warm = c.Warm && a.Plans && !c.Without.Has(without.Plans)
	if a.Name != "gmlake" {
		c.held = held
	}
	target, err := a.New(ctx, tr, c)
	if err != nil {
		return Result{}, err
	}
	r, err := drive(ctx, tr, target, nil, follower(tr, target.(shown), see))
	r.Allocator = a.Name
	if c.Warm {
		r.Mode = Warm
	}
	return r, err
}

func follower(tr *trace.Trace, target shown, see func(Seen)) func(int) {
	var hits, misses int64
	type block struct {
		at   mem.Addr
		size mem.Bytes
	}
	live := make(map[int64]block)
	return func(i int) {
		s := Seen{Event: i, Reserved: target.reserved(), Peak: target.peak(), Done: target.done()}
		switch e := &tr.Events[i]; e.Kind {
		case trace.Alloc:
			h, m := target.served()
			s.Addr, s.Hit, s.Miss = target.place(e.ID), h > hits, m > misses
			hits, misses = h, m
			live[e.ID] = block{s.Addr, e.Size}
			target.used(s.Addr, e.Size, true)
		case trace.FreeCompleted:
			target.used(live[e.ID].at, live[e.ID].size, false)
			delete(live, e.ID)
		}
		see(s)
	}
}

func (s *simulation) place(id int64) mem.Addr {
	h, ok := s.blocks[id]
	if !ok {
		return 0
	}
	at, err := s.sim.Addr(h.block)
	s.check(id, err)
	return address(at)
}

// address makes one address of a place in one of two spaces.
func address(at baseline.Place) mem.Addr {
	const page = mem.Addr(mem.HandleSize) // nothing lies at zero
	if at.Space == baseline.VM {
		return page + mem.Addr(at.Offset) | 1<<62
	}
	return page + mem.Addr(at.Offset)
}

func (s *simulation) reserved() mem.Bytes {
	return s.sim.Stats().Reserved
}

func (s *simulation) peak() mem.Bytes { return s.sim.Stats().PeakReserved }

func (s *simulation) served() (hits, misses int64) { return 0, 0 }

func (s *simulation) used(mem.Addr, mem.Bytes, bool) {} // no memory is mapped twice

func (l *live) used(at mem.Addr, size mem.Bytes, live bool) { l.once.used(at, size, live) }

func (l *live) place(id int64) mem.Addr { return l.blocks[id] }

func (l *live) reserved() mem.Bytes { return l.device.Used() }

func (l *live) peak() mem.Bytes { return l.device.Peak() }

func (l *live) served() (hits, misses int64) {
	h, m := l.local.Served()
	return int64(h), int64(m)
}
