package actors

import (
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/plan"
)

// Many training loops mark the end of a step, or their optimizer does, while the
// gradients are live, and clear them when the next iteration begins:
//
//	        mark                     valley
//	optimizer │ batch, zero_grad frees  │ forward, backward, optimizer │ mark ...
//
// Cut at the mark, every gradient crosses the boundary. So once two steps in a row
// have such a valley behind their mark, the boundary is late: at the first request
// behind the valley. What comes before it, the batch for example, is the end of the
// last step.
type lateBoundary struct {
	// Set by the planner, read wherever a step is marked; nil: boundaries are where
	// the marks are.
	valley atomic.Pointer[plan.Valley]
	saved  atomic.Pointer[plan.Plan] // of an earlier run, until it is at work
	due    atomic.Bool               // a step was marked and has not ended yet

	mu     sync.Mutex
	load   mem.Bytes // when it was marked
	missed int       // valleys in a row that did not come
}

// A boundary is late for the sake of one part in valleyWorth of the step's peak at
// least. Two steps have the same valley if their drops differ by one part in
// valleySame at most, and it is reached when as much of the drop is missing. An
// evaluation may come before that: it belongs to the step that was marked. A step that is
// marked once more before its valley came ends there; after mostMissed such steps in a
// row the marks are believed again.
const (
	valleyWorth = 64
	valleySame  = 8
	mostMissed  = 2
)

// sameValley reports whether two steps' valleys are one.
func sameValley(a, b plan.Valley) bool {
	differ := max(a.Drop, b.Drop) - min(a.Drop, b.Drop)
	return a.Requests == b.Requests && differ <= a.Drop/valleySame
}

// at returns the valley in which steps end; zero: they end at their marks.
func (late *lateBoundary) at() (v plan.Valley) {
	if p := late.valley.Load(); p != nil {
		v = *p
	}
	return v
}

// expect takes in a plan of an earlier run, whose boundaries may have been late.
func (late *lateBoundary) expect(p *plan.Plan) {
	if p != nil && p.Late != (plan.Valley{}) {
		late.saved.Store(p)
	}
}

// resume lets the boundaries be late from the place on where they were in the earlier
// run: the end of its prologue.
func (late *lateBoundary) resume(passed uint64) {
	p := late.saved.Load()
	if p == nil {
		return
	}
	if int(passed)+1 < prologueOf(p) {
		return
	}
	late.saved.Store(nil)
	late.valley.CompareAndSwap(nil, &p.Late)
}

// prologueOf returns how many boundaries the prologue of a plan spans.
func prologueOf(p *plan.Plan) (n int) {
	for i := range p.Streams {
		if tapes := p.Streams[i].Tapes; len(tapes) > 0 {
			n = max(n, tapes[0].Boundaries)
		}
	}
	return n
}

// mark ends a step, now or soon.
func (d *Device) mark() error {
	late := &d.late
	late.resume(d.steps.Load())
	if late.due.CompareAndSwap(true, false) { // the one before came to no valley at all
		late.ended(d, false)
		if err := d.endStep(); err != nil {
			return err
		}
	}
	if late.valley.Load() == nil {
		return d.endStep()
	}
	// Frees that were announced count: for the load here, and for who asks after the
	// mark what is live.
	for _, l := range d.adopt() {
		m := &settleRequest{}
		if d.ask(l.pid, m); m.err != nil {
			d.log.Error("a stream could not settle its frees", zap.Int("stream", l.ordinal), zap.Error(m.err))
		}
	}
	late.mu.Lock()
	late.load = d.host.Load()
	late.mu.Unlock()
	late.due.Store(true)
	// The pool lends its state to C only while nobody needs to see each request: this
	// takes it back.
	return d.rare(&poolRequest{verb: verbStats})
}

// reached reports whether the step that was marked ends before this request.
func (d *Device) reached() bool {
	late := &d.late
	if !late.due.Load() { // nearly always
		return false
	}
	v := late.valley.Load()
	if v == nil {
		return false
	}
	late.mu.Lock()
	low := d.host.Load()+v.Drop-v.Drop/valleySame <= late.load
	late.mu.Unlock()
	if !low || !late.due.CompareAndSwap(true, false) {
		return false
	}
	late.ended(d, true)
	return true
}

// ended counts valleys that do not come.
func (late *lateBoundary) ended(d *Device, low bool) {
	late.mu.Lock()
	defer late.mu.Unlock()
	if low {
		late.missed = 0
		return
	}
	if late.missed++; late.missed >= mostMissed {
		late.missed = 0
		late.valley.Store(nil)
		d.log.Info("steps end where they are marked again: nothing is freed behind the mark any more")
	}
}

// valleys is what the planner knows of them.
type valleys struct {
	last  plan.Valley // of the step before
	mixed bool        // the step under way began at a mark and ends in a valley
}

// move notes that the segment to come is the first that ends in a valley: the prologue
// of the next run ends there. Nothing is kept for that run if the segment is not, or if
// there are kinds of step that began and ended at marks.
func (b *beginning) move() {
	b.late = len(b.segments) + 1
	b.lost = b.lost || len(b.segments) == mostFirst || len(b.kinds) > 0
}

// skip reports whether the step that has ended is of no use: the boundaries moved in it.
func (v *valleys) skip() (mixed bool) {
	mixed, v.mixed = v.mixed, false
	return mixed
}

// moves takes in a step that was not served well, and moves the boundaries from the
// marks to valleys if it had the same one as the step before.
func (p *planner) moves(steps []*plan.Step) bool {
	if p.d.late.valley.Load() != nil {
		return false
	}
	busiest := slices.MaxFunc(steps, func(a, b *plan.Step) int { return int(a.Requests() - b.Requests()) })
	v, last := busiest.Valley(), p.valleys.last
	p.valleys.last = v
	if peak, _ := busiest.Peaks(); v.Drop*valleyWorth < peak || !sameValley(last, v) {
		return false
	}
	p.d.log.Info("steps end behind their mark, where much is freed before the next begins", zap.Int("requests", v.Requests), zap.Stringer("freed", v.Drop))
	p.d.late.valley.Store(&v)
	p.valleys = valleys{mixed: true}
	p.kinds, p.trial = kinds{}, nil
	p.beginning.move()
	// A plan from mark to mark would begin where no step does any more.
	p.d.root.Send(p.d.supervisor, &planReady{})
	p.offered, p.served, p.bad = nil, nil, 0
	return true
}
