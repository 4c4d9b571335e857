package actors

import (
	"cmp"
	"slices"

	"stalloc/engine"
	"stalloc/engine/onerange"
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

// backlog is a step that was served without anybody reading along, on its way to the layout
// and back.
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
	served  *foreseen // the one that is served
}

type known struct {
	ref  predict.Ref
	size mem.Bytes
}

// foreseen is a forecast on its way to the layout and, with offsets, back.
type foreseen struct {
	by       *forecaster
	forecast predict.Forecast
	fixed    []predict.Obstacle // by offset from origin
	origin   mem.Addr
	goal     mem.Bytes
	offsets  []mem.Offset
	reel     *Reel // of the positions, where the host serves from it
	at       int   // requests of the step before it was sent
	again    bool  // it came too late once
}

// A forecast that is a little off may end so much above what the range has, one part in so
// many.
const foreseenMore = 200

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

// watches reports whether the next large request is to be known when it comes.
func (a *ahead) watches() bool {
	if !a.looks() {
		return false
	}
	for _, f := range a.streams {
		if f.learner.Watches() || f.served != nil && f.learner.Follows(f.served.forecast.Number) {
			return true
		}
	}
	return len(a.streams) == 0
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
			f.refs[at] = known{f.next, size}
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
	if f.match.Forecast == 0 || m.wish != 0 {
		return
	}
	if f.match.Forecast != f.asked {
		f.asked = f.match.Forecast
		if x := f.gather(p.ranged, m.stream); x != nil {
			a.send(x)
		}
	}
	x := f.served
	if x == nil {
		return
	}
	m.foreseen = true
	if at := x.offsets[f.match.Position]; at != predict.Nowhere {
		m.wish = x.origin + mem.Addr(at)
	}
}

// play serves a forecast that was laid out from the next request on, if it still holds. Where
// blocks were placed meanwhile, without it, it is laid out around those once more.
func (a *ahead) play(p *pool, x *foreseen) {
	f := x.by
	if !a.looks() || !f.learner.Follows(x.forecast.Number) {
		return
	}
	if f.learner.Ordinal() > x.at && !x.again {
		if y := f.gather(p.ranged, f.stream); y != nil {
			y.again, y.forecast.From = true, f.learner.Now()
			a.send(y)
		}
	}
	a.drop(f)
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
	f.served = nil
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
	f.refs[m.addr] = known{f.next, mem.Round(m.size)}
	if f.match.Forecast != 0 && m.wish != 0 && kind != wish.EventHit {
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

// gather copies what the layout needs: the forecast, and where other blocks lie until
// when.
func (f *forecaster) gather(e *onerange.Engine, id mem.StreamID) *foreseen {
	x := &foreseen{by: f, at: f.learner.Ordinal()}
	if !f.learner.Forecast(&x.forecast) {
		return nil
	}
	var gaps []engine.Range
	e.Gaps(id, false, func(r engine.Range) { gaps = append(gaps, r) })
	blocks := make([]engine.Range, 0, len(f.refs))
	for at, b := range f.refs {
		blocks = append(blocks, engine.Range{Addr: at, Size: b.size})
	}
	slices.SortFunc(blocks, func(a, b engine.Range) int { return cmp.Compare(a.Addr, b.Addr) })
	if len(gaps) == 0 {
		return nil
	}
	x.origin = gaps[0].Addr
	if len(blocks) > 0 {
		x.origin = min(x.origin, blocks[0].Addr)
	}
	fix := func(from, to mem.Addr, until mem.Tick) {
		if from < to {
			x.fixed = append(x.fixed, predict.Obstacle{From: mem.Offset(from - x.origin), To: mem.Offset(to - x.origin), Until: until})
		}
	}
	at, i := x.origin, 0
	for _, g := range append(gaps, engine.Range{Addr: gaps[len(gaps)-1].Addr + mem.Addr(gaps[len(gaps)-1].Size)}) {
		for ; i < len(blocks) && blocks[i].Addr < g.Addr; i++ { // a stitched block lies elsewhere
			b := blocks[i]
			if b.Addr < at {
				continue
			}
			fix(at, b.Addr, predict.Never)
			at = b.Addr + mem.Addr(b.Size)
			fix(b.Addr, at, f.learner.End(f.refs[b.Addr].ref))
		}
		fix(at, g.Addr, predict.Never)
		at = g.Addr + mem.Addr(g.Size)
	}
	x.goal = max(mem.Bytes(at-x.origin), x.forecast.Peak)
	return x
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
