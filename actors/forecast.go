package actors

import (
	"cmp"
	"slices"
	"sync/atomic"

	"stalloc/engine"
	"stalloc/engine/onerange"
	"stalloc/internal/mem"
	"stalloc/plan/predict"
)

// forecaster foresees the large requests of one stream's steps, where no two have the same
// sizes (package predict), and has the planner lay them out while the step runs.
type forecaster struct {
	learner *predict.Learner
	refs    map[mem.Addr]known // the large blocks that live
	next    predict.Ref        // of the request at hand
	match   predict.Match
	asked   uint32 // the forecast that was sent to the planner
	ready   atomic.Pointer[foreseen]
}

type known struct {
	ref  predict.Ref
	size mem.Bytes
}

// foreseen is a forecast on its way to the planner and, with offsets, back.
type foreseen struct {
	by       *forecaster
	forecast predict.Forecast
	fixed    []predict.Obstacle // by offset from origin
	origin   mem.Addr
	goal     mem.Bytes
	offsets  []mem.Offset
}

// foresee tells the learner of a request, and gives it the wish that was planned for it.
func (l *stepLog) foresee(p *pool, m *allocRequest) {
	if m.size <= predict.Large {
		return
	}
	f := l.large[m.stream]
	if f == nil {
		f = &forecaster{learner: predict.New(), refs: map[mem.Addr]known{}}
		l.large[m.stream] = f
	}
	f.next, f.match = f.learner.Alloc(m.size)
	if f.match.Forecast == 0 {
		return
	}
	if f.match.Forecast != f.asked {
		f.asked = f.match.Forecast
		f.ready.Store(nil)
		if x := f.gather(p.eng.(*onerange.Engine), m.stream); x != nil && p.plan != nil {
			p.plan(x)
		}
	}
	m.wished = true
	x := f.ready.Load()
	if m.wish != 0 || x == nil || x.forecast.Number != f.match.Forecast {
		return
	}
	if at := x.offsets[f.match.Position]; at != predict.Nowhere {
		m.wish = x.origin + mem.Addr(at)
	}
}

// gather copies what the planner needs: the forecast, and where other blocks lie until
// when.
func (f *forecaster) gather(e *onerange.Engine, id mem.StreamID) *foreseen {
	x := &foreseen{by: f}
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

// layOut plans the offsets. It runs beside the program.
func (x *foreseen) layOut() {
	var p predict.Planner
	offsets, top := p.Plan(x.forecast.From, x.forecast.Positions, x.fixed, x.goal)
	if top > x.goal {
		return
	}
	x.offsets = slices.Clone(offsets)
	x.by.ready.Store(x)
}

// placed notes where the request at hand has its block.
func (f *forecaster) placed(m *allocRequest) {
	if f == nil || m.size <= predict.Large {
		return
	}
	f.refs[m.addr] = known{f.next, mem.Round(m.size)}
	if f.match.Forecast != 0 && m.wish != 0 && !m.hit {
		f.learner.Taken()
	}
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
