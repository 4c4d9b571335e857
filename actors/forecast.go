package actors

import (
	"slices"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/plan/predict"
	"stalloc/stream/wish"
)

// ahead looks ahead in the steps of each stream of a range. A nil one does nothing: nobody plans.
type ahead struct {
	streams map[mem.StreamID]*forecaster
	host    Host
	send    func(any) // to the layout
	seen    int       // events of the log that were read
	// So many steps are the layout's to read, the running one among them where behind is set.
	// Nothing is foreseen meanwhile: the forecasters are the layout's, too.
	away   int
	behind bool
}

// backlog is a step that was served without anybody reading along, on its way to the layout.
type backlog struct {
	events  []wish.Event
	streams map[uint16]mem.StreamID
}

// mostBehind bounds the events that are read at once on the program's thread, a tenth of a
// microsecond each. C may have served a whole step of a plan when Go hears of it.
const mostBehind = 1 << 12

// forecaster foresees the large requests of one stream's steps, where no two have the same
// sizes (package predict), and has them laid out while the step runs.
type forecaster struct {
	learner *predict.Learner
	refs    map[mem.Addr]known // the large blocks that live
	stream  mem.StreamID
	next    predict.Ref // of the request at hand
	match   predict.Match
	asked   uint32    // the forecast that was sent to the layout
	laid    uint32    // the forecast that it has answered last
	served  *foreseen // the one that is served
	again   *foreseen // the same, which came late, on its way to the layout once more
	placed  int       // large blocks, ever
	ahead   int       // about as many are placed while a forecast is laid out
}

type known struct {
	ref  predict.Ref
	size mem.Bytes
}

// foreseen is a forecast on its way to the layout, which adds offsets.
type foreseen struct {
	by       *forecaster
	forecast predict.Forecast
	known    []predict.Obstacle // gaps and blocks, by offset in the window
	goal     mem.Bytes
	offsets  []mem.Offset
	reel     *Reel        // of the positions, where the host serves from it
	placed   int          // the forecaster's, when it was sent
	ahead    int          // requests that will have been placed when it comes
	wishes   []mem.Offset // of those, where another forecast serves
	second   bool         // it came too late once, and was laid out again
}

// A forecast that is a little off may end so much above what the range has, one part in so
// many.
const foreseenMore = 200

// mostAhead bounds the requests that are placed without a forecast for its sake.
const mostAhead = 128

// of returns the forecaster of a stream, made on first sight.
func (a *ahead) of(id mem.StreamID) *forecaster {
	f := a.streams[id]
	if f == nil {
		f = &forecaster{learner: predict.New(), refs: map[mem.Addr]known{}, stream: id}
		a.streams[id] = f
	}
	return f
}

// looks reports whether the forecasters are here.
func (a *ahead) looks() bool { return a != nil && a.away == 0 }

// watches reports whether the next large request is to be known when it comes, and whether the
// host is to say now and then what it has served: a step may turn out to be of another kind.
func (a *ahead) watches() (next, soon bool) {
	if !a.looks() {
		return false, false
	}
	for _, f := range a.streams {
		next = next || f.learner.Watches() || f.served != nil && f.learner.Follows(f.served.forecast.Number)
		soon = soon || f.learner.Unsettled() && a.unplanned(f)
	}
	return next || len(a.streams) == 0, soon
}

// read takes in what the host has served itself.
func (a *ahead) read(p *pool) {
	if !a.looks() {
		return
	}
	events := p.host.Events()
	if len(events)-a.seen > mostBehind {
		a.away, a.behind = 1, true
		for _, f := range a.streams {
			a.drop(f)
		}
		return
	}
	a.take(events[a.seen:], p.ranged.StreamOf)
	a.seen = len(events)
	for _, f := range a.streams {
		if f.match.Forecast > f.asked && a.unplanned(f) { // C has served it, and goes on
			a.ask(p, f, f.learner.Now())
		}
	}
}

// unplanned reports whether most of a stream's large requests have no wishes of a plan.
func (a *ahead) unplanned(f *forecaster) bool {
	t := &a.host.Tapes(f.stream)[wish.Large]
	return t.Missed >= t.Matched
}

// ask has a new forecast laid out, for the requests from a tick on.
func (a *ahead) ask(p *pool, f *forecaster, from mem.Tick) {
	f.asked = f.match.Forecast
	if x := f.gather(p, from); x != nil {
		if from == 0 {
			x.placed++ // the request at hand
		}
		a.send(x)
	}
}

// take tells the learners of events.
func (a *ahead) take(events []wish.Event, streamOf func(uint16) mem.StreamID) {
	for _, ev := range events {
		size := mem.Bytes(ev.Size()) * mem.Grain
		if size <= predict.Large {
			continue
		}
		f := a.of(streamOf(ev.Stream()))
		at := mem.Addr(ev.Addr)
		switch ev.Kind() {
		case wish.EventHit, wish.EventMiss:
			f.next, f.match = f.learner.Alloc(size)
			f.place(at, size)
		case wish.EventFree:
			f.freed(at)
			f.done(at)
		case wish.EventLate:
			f.freed(at)
		case wish.EventDone:
			f.done(at)
		}
	}
}

// foresee tells the learner of a request, and gives it the wish that was planned for it.
func (a *ahead) foresee(p *pool, m *allocRequest) {
	if !a.looks() || m.size <= predict.Large {
		return
	}
	f := a.of(m.stream)
	f.next, f.match = f.learner.Alloc(m.size)
	if f.served != nil && !f.learner.Follows(f.served.forecast.Number) {
		a.drop(f)
	} else if f.served != nil {
		a.host.Tapes(m.stream)[wish.Foreseen].Cursor = uint32(f.learner.Ordinal())
	}
	if f.match.Forecast == 0 {
		return
	}
	if m.wish == 0 && f.match.Forecast > f.asked {
		a.ask(p, f, 0)
	}
	m.brief = m.brief && f.laid >= f.asked && f.again == nil // the layout expects it at its gap's beginning
	if m.wish != 0 {
		return
	}
	x := f.served
	if x == nil {
		return
	}
	m.foreseen = true
	if at := x.offsets[f.match.Position]; at != predict.Nowhere {
		m.wish = p.base + mem.Addr(at)
	}
}

// play serves a forecast that was laid out from the next request on, if it still holds. Where
// more blocks were placed meanwhile than it knows of, it is laid out once more.
func (a *ahead) play(p *pool, x *foreseen) {
	f := x.by
	f.laid = x.forecast.Number
	if f.again == x {
		f.again = nil
	}
	if x.offsets == nil || !a.looks() || !f.learner.Follows(x.forecast.Number) {
		return
	}
	late := f.placed - x.placed
	f.ahead = min(max(late+late/2, f.ahead-f.ahead/4), mostAhead)
	a.drop(f)
	stale := late > x.ahead+mostAhead // too much lies elsewhere: it would only be in the way
	if late > 0 && late >= x.ahead && !x.second {
		if y := f.gather(p, f.learner.Now()); y != nil {
			if y.second = true; !stale {
				y.wishes = x.offsets
			}
			f.again = y
			a.send(y)
		}
	}
	if stale {
		return
	}
	if f.served = x; x.reel != nil {
		a.host.Serve(f.stream, wish.Foreseen, x.reel)
		a.host.Tapes(f.stream)[wish.Foreseen].Cursor = uint32(f.learner.Ordinal())
	}
}

// drop ends the forecast that is served.
func (a *ahead) drop(f *forecaster) {
	if f.served != nil && f.served.reel != nil {
		a.host.Serve(f.stream, wish.Foreseen, nil)
	}
	f.served, f.again = nil, nil
}

// placed notes where the request at hand has its block, which was logged just now.
func (a *ahead) placed(m *allocRequest, kind wish.EventKind) {
	if !a.looks() {
		return
	}
	a.seen = len(a.host.Events())
	if m.size <= predict.Large {
		return
	}
	f := a.of(m.stream)
	f.place(m.addr, mem.Round(m.size))
	if f.match.Forecast != 0 && m.wish != 0 && kind != wish.EventHit && f.again == nil {
		f.learner.Taken()
	}
}

// boundary ends the step: it returns what the planner is to know of it.
func (a *ahead) boundary(p *pool) *stepEnded {
	if a == nil {
		return nil
	}
	a.read(p)
	e := p.ranged
	m := &stepEnded{events: slices.Clone(p.host.Events()), streams: map[uint16]mem.StreamID{}, extents: map[spaceKey][]engine.Range{}, gaps: map[spaceKey][]engine.Range{}, handle: e.Handle()}
	m.lost = p.host.Clear()
	for _, id := range e.Streams() {
		m.streams[e.Ordinal(id)] = id
		for _, small := range []bool{false, true} {
			key := spaceKey{id, small}
			m.extents[key] = e.Extents(id, small)
			e.Gaps(id, small, func(r engine.Range) { m.gaps[key] = append(m.gaps[key], r) })
		}
	}
	if a.looks() {
		for _, f := range a.streams {
			a.drop(f)
			f.learner.Boundary()
		}
	} else {
		if !a.behind {
			a.away++
		}
		a.send(&backlog{m.events[a.seen:], m.streams})
	}
	a.seen, a.behind = 0, false
	return m
}

// gather copies what the layout needs: the forecast, and where blocks lie until when.
func (f *forecaster) gather(p *pool, from mem.Tick) *foreseen {
	x := &foreseen{by: f, placed: f.placed, ahead: f.ahead}
	if !f.learner.Forecast(&x.forecast) {
		return nil
	}
	x.forecast.From = max(x.forecast.From, from)
	var first, end mem.Addr
	know := func(at mem.Addr, size mem.Bytes, until mem.Tick) {
		begin := mem.Offset(at - p.base)
		x.known = append(x.known, predict.Obstacle{From: begin, To: begin + mem.Offset(size), Until: until})
	}
	p.ranged.Gaps(f.stream, false, func(g engine.Range) {
		if end == 0 {
			first = g.Addr
		}
		end = g.Addr + mem.Addr(g.Size)
		know(g.Addr, g.Size, 0)
	})
	for at, b := range f.refs {
		if at < end { // else it is stitched
			first = min(first, at)
			know(at, b.size, f.learner.End(b.ref))
		}
	}
	if end == 0 {
		return nil
	}
	x.goal = max(mem.Bytes(end-p.base), mem.Bytes(first-p.base)+x.forecast.Peak)
	return x
}

func (f *forecaster) place(at mem.Addr, size mem.Bytes) {
	f.refs[at] = known{f.next, size}
	f.placed++
}

func (f *forecaster) freed(at mem.Addr) {
	if b, ok := f.refs[at]; ok {
		f.learner.Free(b.ref)
	}
}

func (f *forecaster) done(at mem.Addr) {
	if b, ok := f.refs[at]; ok {
		f.learner.Done(b.ref)
		delete(f.refs, at)
	}
}
