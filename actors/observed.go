package actors

import (
	"slices"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream/schedule"
)

// arenaKey names an arena of the range: a stream's for large or for small requests.
type arenaKey struct {
	stream mem.StreamID
	small  bool
}

// arenaStep is what a step asked of one arena. Its requests lie at offsets from the window's
// base.
type arenaStep struct {
	arenaKey
	plan.Step
	gaps []engine.Range // at the end of the step
	end  mem.Tick       // of the step
	// requests that were served at their planned offsets; unseen: it is an earlier run's
	hits int
}

const unseen = -1

// observed takes what the log says of a step that has ended, and where its memory was then.
func (p *pool) observed() *stepEnded {
	e := p.ranged
	m := &stepEnded{
		host: p.host, streams: map[uint16]mem.StreamID{}, gaps: map[arenaKey][]engine.Range{},
		memory: p.stats(), limit: p.limit,
	}
	m.events, m.lost = p.host.Take()
	m.readers.Store(1) // who made it
	for _, id := range e.Streams() {
		m.streams[e.Ordinal(id)] = id
		for _, small := range []bool{false, true} {
			key := arenaKey{id, small}
			e.Gaps(id, small, func(r engine.Range) { m.gaps[key] = append(m.gaps[key], r) })
		}
	}
	return m
}

// arenas sorts the events of a step by the arenas they concern, in the order of their first
// requests.
func (m *stepEnded) arenas(small mem.Bytes, base mem.Addr) (all []*arenaStep) {
	type block struct {
		of *arenaStep
		n  int
	}
	var blocks []block
	var r schedule.Reader
	for tick, l := range r.Read(m.events) {
		if l.What == schedule.Requested {
			size := mem.Bytes(l.Event.Size()) * mem.Grain
			key := arenaKey{m.streams[l.Event.Stream()], size <= small}
			i := slices.IndexFunc(all, func(s *arenaStep) bool { return s.arenaKey == key })
			if i < 0 {
				i = len(all)
				all = append(all, &arenaStep{arenaKey: key, gaps: m.gaps[key],
					end: mem.Tick(len(m.events))})
				all[i].Stream, all[i].Small = slices.Index(m.order, key.stream), key.small
			}
			s := all[i]
			blocks = append(blocks, block{s, len(s.Requests)})
			s.Requests = append(s.Requests, plan.Request{
				Size: size, From: mem.Tick(tick), Free: plan.Never, Done: plan.Never, At: mem.Offset(mem.Addr(l.Event.Addr) - base),
			})
			if l.Event.Kind() == schedule.EventHit {
				s.hits++
			}
		} else if l.Block >= 0 {
			x := &blocks[l.Block].of.Requests[blocks[l.Block].n]
			if l.What != schedule.Done {
				x.Free = mem.Tick(tick)
			}
			if l.What != schedule.Released {
				x.Done = mem.Tick(tick)
			}
		}
	}
	return all
}
