package actors

import (
	"maps"
	"slices"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream/wish"
)

// history is what the planner keeps of the beginning of a run: for a later run of the same
// program, which is to be served from its first request on.
//
//	set-up, first steps          a step that was served well
//	|———————— first ————————|————————— step —————————| ...
//
// The blocks of both are placed together. What outlives the step, or is live all through
// it, has its place for good.
type history struct {
	tick   mem.Tick
	spaces map[spaceKey]*past
	live   map[uint64]pastBlock
	cuts   []cut       // the boundaries so far
	first  []mem.Bytes // the sizes of the first stream's first requests
	over   bool        // no more steps are kept; frees are
	lost   bool        // events are missing
}

// past is what one space was asked for.
type past struct {
	ordinal  int            // of the stream
	extents  []engine.Range // its addresses, in the order in which it got them
	requests []lasting
}

type pastBlock struct {
	of *past
	n  int
}

// cut is a boundary: when it was, and how many requests each space had had.
type cut struct {
	at mem.Tick
	n  map[spaceKey]int
}

// setUpSpans is how many boundaries set-up and the first step take.
const setUpSpans = 2

// mostHistory bounds the requests that are kept.
const mostHistory = 1 << 19

func newHistory() *history {
	return &history{spaces: map[spaceKey]*past{}, live: map[uint64]pastBlock{}}
}

// add takes in a step.
func (h *history) add(m *stepEnded, small mem.Bytes) {
	h.lost = h.lost || m.lost > 0 || m.gap
	for _, e := range m.events {
		h.tick++
		switch e.Kind() {
		case wish.EventHit, wish.EventMiss:
			delete(h.live, e.Addr)
			if !h.over {
				h.request(m, e, small)
			}
		case wish.EventLate:
			if b, ok := h.live[e.Addr]; ok {
				b.of.requests[b.n].late = true
			}
		case wish.EventFree, wish.EventDone:
			if b, ok := h.live[e.Addr]; ok {
				b.of.requests[b.n].to = h.tick
				delete(h.live, e.Addr)
			}
		}
	}
	if h.over {
		return
	}
	c := cut{h.tick, map[spaceKey]int{}}
	total := 0
	for key, s := range h.spaces {
		c.n[key] = len(s.requests)
		total += len(s.requests)
	}
	h.cuts = append(h.cuts, c)
	h.lost = h.lost || total > mostHistory
}

func (h *history) request(m *stepEnded, e wish.Event, small mem.Bytes) {
	size := mem.Bytes(e.Size()) * mem.Grain
	key := spaceKey{m.streams[e.Stream()], size <= small}
	s := h.spaces[key]
	if s == nil {
		s = &past{ordinal: slices.Index(m.order, key.stream), extents: m.extents[key]}
		h.spaces[key] = s
	}
	s.extents = m.extents[key]
	if s.ordinal == 0 && len(h.first) < plan.KeyRequests {
		h.first = append(h.first, size)
	}
	h.live[e.Addr] = pastBlock{s, len(s.requests)}
	s.requests = append(s.requests, lasting{size: size, at: mem.Addr(e.Addr), from: h.tick, to: -1})
}

// asOfNow returns what plan reads, which may go on beside add.
func (h *history) asOfNow() *history {
	c := &history{spaces: make(map[spaceKey]*past, len(h.spaces)), cuts: slices.Clone(h.cuts), first: slices.Clone(h.first)}
	for key, s := range h.spaces {
		c.spaces[key] = &past{ordinal: s.ordinal, extents: s.extents, requests: slices.Clone(s.requests)}
	}
	return c
}

// plan makes the plan of a later run. The step is the one behind so many boundaries; zero:
// none repeats, and set-up and the first step are all that is planned.
func (h *history) plan(step int) *plan.Plan {
	p := &plan.Plan{Boundaries: step}
	if step == 0 {
		p.Boundaries = min(setUpSpans, len(h.cuts))
	}
	keys := slices.SortedFunc(maps.Keys(h.spaces), func(a, b spaceKey) int {
		if x, y := h.spaces[a].ordinal, h.spaces[b].ordinal; x != y {
			return x - y
		}
		if a.small == b.small {
			return 0
		} else if a.small {
			return 1
		}
		return -1
	})
	for _, key := range keys {
		if h.spaces[key].ordinal >= 0 {
			p.Spaces = append(p.Spaces, h.space(key, step))
		}
	}
	p.Key = plan.KeyOf(h.first)
	return p
}

// offset returns where a block lay in a space, as if all its addresses were contiguous.
func (s *past) offset(r lasting) mem.Offset {
	from := mem.Offset(0)
	for _, x := range s.extents {
		if r.at >= x.Addr && r.at+mem.Addr(r.size) <= x.Addr+mem.Addr(x.Size) {
			return from + mem.Offset(r.at-x.Addr)
		}
		from += mem.Offset(x.Size)
	}
	return plan.Nowhere
}

// space places what one space was asked for.
func (h *history) space(key spaceKey, step int) plan.Space {
	s := h.spaces[key]
	out := plan.Space{Ordinal: s.ordinal, Small: key.small}
	begin := h.cuts[min(setUpSpans, len(h.cuts))-1]
	end := begin
	if step > 0 {
		begin, end = h.cuts[step-1], h.cuts[step]
	}
	list := s.requests[:end.n[key]]
	at := make([]mem.Offset, len(list))
	if key.small { // they cost no memory worth a plan: each goes where it lay
		for i, r := range list {
			at[i] = s.offset(r)
		}
	} else {
		at = placed(list, begin, end, begin.n[key])
	}
	for i, r := range list {
		q := plan.Request{Size: r.size, At: at[i]}
		if q.At != plan.Nowhere {
			out.Hold = max(out.Hold, mem.Bytes(q.At)+q.Size)
		}
		if i < begin.n[key] {
			out.First = append(out.First, q)
		} else {
			out.Step = append(out.Step, q)
		}
	}
	out.Hold = (out.Hold + mem.HandleSize - 1) / mem.HandleSize * mem.HandleSize
	return out
}

// placed places requests, of which the first ones come before the step.
func placed(list []lasting, begin, end cut, first int) []mem.Offset {
	buffers := make([]plan.Buffer, len(list))
	for i, r := range list {
		b := plan.Buffer{Lower: r.from, Upper: r.to, Size: r.size}
		if r.to < 0 || r.to > end.at {
			b.Upper = end.at + 1
			if begin.at == end.at && r.to < 0 { // later steps are larger: what stays for good is to lie together
				b.Lower = 0
			}
			if i >= first { // it is there at the beginning of the next step, too
				b.Lower = begin.at
			}
		}
		buffers[i] = b
	}
	return solve(list, buffers, end.at+1, nil, plan.LowerBound(buffers)).Offsets
}
