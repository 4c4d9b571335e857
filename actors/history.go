package actors

import (
	"cmp"
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
	reading
	order   []mem.StreamID              // in the order of their first requests
	extents map[spaceKey][]engine.Range // the addresses of a space, in the order in which it got them
	cuts    []cut                       // the boundaries so far
	first   []mem.Bytes                 // the sizes of the first stream's first requests
	over    bool                        // no more steps are kept; frees are
	lost    bool                        // events are missing
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

func newHistory() *history { return &history{reading: reading{live: map[uint64]lived{}}} }

// add takes in a step.
func (h *history) add(m *stepEnded, small mem.Bytes) {
	h.lost = h.lost || m.lost > 0 || m.gap
	h.read(m, small, !h.over)
	if h.over {
		return
	}
	h.order, h.extents = m.order, m.extents
	for _, e := range m.events {
		if len(h.first) == plan.KeyRequests {
			break
		}
		served := e.Kind() == wish.EventHit || e.Kind() == wish.EventMiss
		if served && m.streams[e.Stream()] == m.order[0] {
			h.first = append(h.first, mem.Bytes(e.Size())*mem.Grain)
		}
	}
	c := cut{h.tick, map[spaceKey]int{}}
	total := 0
	for _, s := range h.spaces {
		c.n[s.spaceKey] = len(s.requests)
		total += len(s.requests)
	}
	h.cuts = append(h.cuts, c)
	h.lost = h.lost || total > mostHistory
}

// asOfNow returns what plan reads, which may go on beside add.
func (h *history) asOfNow() *history {
	c := *h
	c.live, c.cuts, c.first, c.spaces = nil, slices.Clone(h.cuts), slices.Clone(h.first), nil
	for _, s := range h.spaces {
		c.spaces = append(c.spaces, &spaceStep{spaceKey: s.spaceKey, requests: slices.Clone(s.requests)})
	}
	return &c
}

// plan makes the plan of a later run. The step is the one behind so many boundaries; zero:
// none repeats, and set-up and the first step are all that is planned.
func (h *history) plan(step int) *plan.Plan {
	p := &plan.Plan{Boundaries: step}
	if step == 0 {
		p.Boundaries = min(setUpSpans, len(h.cuts))
	}
	for _, s := range h.spaces {
		if ordinal := slices.Index(h.order, s.stream); ordinal >= 0 {
			p.Spaces = append(p.Spaces, h.planned(s, ordinal, step))
		}
	}
	p.Key = plan.KeyOf(h.first)
	return p
}

// offset returns where a block lay in a space, as if all its addresses were contiguous.
func offset(extents []engine.Range, r lasting) mem.Offset {
	from := mem.Offset(0)
	for _, x := range extents {
		if r.at >= x.Addr && r.at+mem.Addr(r.size) <= x.Addr+mem.Addr(x.Size) {
			return from + mem.Offset(r.at-x.Addr)
		}
		from += mem.Offset(x.Size)
	}
	return plan.Nowhere
}

// planned places what one space was asked for.
func (h *history) planned(s *spaceStep, ordinal, step int) plan.Space {
	out := plan.Space{Ordinal: ordinal, Small: s.small}
	begin := h.cuts[min(setUpSpans, len(h.cuts))-1]
	end := begin
	if step > 0 {
		begin, end = h.cuts[step-1], h.cuts[step]
	}
	list := s.requests[:end.n[s.spaceKey]]
	at := make([]mem.Offset, len(list))
	if s.small { // they cost no memory worth a plan: each goes where it lay
		for i, r := range list {
			at[i] = offset(h.extents[s.spaceKey], r)
		}
	} else {
		at = placed(list, begin, end, begin.n[s.spaceKey])
	}
	for i, r := range list {
		q := plan.Request{Size: r.size, At: at[i]}
		if r.to >= 0 {
			next, _ := slices.BinarySearchFunc(list, r.to, func(x lasting, to mem.Tick) int { return cmp.Compare(x.from, to) })
			q.Life = next - i
		}
		if q.At != plan.Nowhere {
			out.Hold = max(out.Hold, mem.Bytes(q.At)+q.Size)
		}
		if i < begin.n[s.spaceKey] {
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
