package actors

import (
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream/wish"
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
	due    atomic.Bool // a step was marked and has not ended yet

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

// mark ends a step, now or soon.
func (d *Device) mark() error {
	late := &d.late
	if late.due.CompareAndSwap(true, false) { // the one before came to no valley at all
		late.ended(d, false)
		if err := d.endStep(); err != nil || late.valley.Load() == nil { // nil: this mark's step as well
			return err
		}
	}
	if late.valley.Load() == nil {
		return d.endStep()
	}
	// This takes what is lent back: frees that were announced count, for the load here and
	// for who asks after the mark what is live. From now on each request is seen.
	d.Stats()
	late.mu.Lock()
	late.load = d.host.Load()
	late.mu.Unlock()
	late.due.Store(true)
	d.Stats() // lent on the new terms
	return nil
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

// valleyOf looks for the valley among the first requests of a step, one in valleyPart. A
// training loop that clears its gradients only when the next iteration begins has one, and
// a plan made from boundary to boundary would hold every gradient as a block that crosses
// it. It returns the peak of the load, above that at the beginning, as well.
func valleyOf(events []wish.Event) (v plan.Valley, peak mem.Bytes) {
	requests, load, least := 0, mem.Bytes(0), mem.Bytes(0)
	for _, e := range events {
		if e.Kind() == wish.EventHit || e.Kind() == wish.EventMiss {
			requests++
		}
	}
	most := requests / valleyPart
	requests = 0
	for _, e := range events {
		size := mem.Bytes(e.Size()) * mem.Grain
		switch e.Kind() {
		case wish.EventHit, wish.EventMiss:
			load += size
			requests++
		case wish.EventFree, wish.EventDone:
			load -= size
		}
		if load < least && requests <= most {
			least = load
			v = plan.Valley{Requests: requests, Drop: -load}
		}
		peak = max(peak, load)
	}
	return v, peak
}

const valleyPart = 8

// moves takes in a step that was not served well, and moves the boundaries from the
// marks to valleys if it had the same one as the step before.
func (p *planner) moves(m *stepEnded) bool {
	if !p.d.auto.marked.Load() || p.d.late.valley.Load() != nil {
		return false
	}
	v, peak := valleyOf(m.events)
	last := p.valley
	p.valley = v
	if v.Drop == 0 || v.Drop*valleyWorth < peak+v.Drop || !sameValley(last, v) {
		return false
	}
	p.d.log.Info("steps end behind their mark, where much is freed before the next begins", zap.Int("requests", v.Requests), zap.Stringer("freed", v.Drop))
	p.d.late.valley.Store(&v)
	p.valley, p.mixed = plan.Valley{}, true
	return true
}
