package onerange

import (
	"stalloc/engine"
	"stalloc/internal/mem"
)

// An action is what the last batch of ops belongs to. A batch that calls the driver
// ends with OpResume; EvResume says that all of it was done, EvFailed how much, and
// commit enters just that into the books. Then the action goes on:
//
//	grow ──► try                      failed: access what was mapped, or ungrow ──► try
//	stitch ──► granted                failed: drop the view ──► try
//	wait ──► unhome ──► try           idle memory of other streams
//	wait ──► try                      blocks that wait for fences
//	wait ──► drop ──► unhome ──► release    a trim
//
// A device that cannot be waited for keeps what it has: wait ──► try, or release.
type phase uint8

const (
	phaseNone phase = iota
	phaseGrow
	phaseAccess
	phaseUngrow
	phaseStitch
	phaseDrop
	phaseWait
	phaseUnhome
	phaseRelease
)

type action struct {
	phase phase
	ops   int // driver calls in the batch

	// The request, if any.
	asked   bool
	req     uint64
	size    mem.Bytes // asked for
	n       unit
	patient bool // it rather waits for fences than has memory made
	lend    bool // and rather has other streams lend theirs
	heap    uint32
	arena   uint32
	attempt attempt
	grown   bool // new memory was made for it
	full    bool // the driver gave none
	spared  bool // and unmapped handles were tried instead
	torn    bool // no view could be made
	waited  bool
	synced  bool // the device has been waited for
	renewed bool // all that is free was given back for it
	reason  engine.Reason
	code    int

	// What is being mapped: the picks from at on, to be a place in void.
	void     int
	at       unit
	skip     unit // how far after its view's start the block begins
	creates  int  // of the picks, the last ones
	mapped   int  // phaseAccess, phaseUngrow: of the picks
	view     uint32
	trimming bool
	pool     uint64 // trimming: whose memory
	wanted   bool   // trimming: the program asked for it
}

// await ends a batch with OpResume.
func (e *Engine) await(ph phase, out []engine.Op) []engine.Op {
	e.act.phase = ph
	return append(out, engine.Op{Kind: engine.OpResume, Req: e.act.req})
}

// settle ends an action whose answer never came, because the runner sent another
// event instead: its batch is taken to have gone through. A request still waiting
// is refused, so that it does not stay unanswered.
func (e *Engine) settle(out []engine.Op) []engine.Op {
	if a := &e.act; a.phase != phaseNone {
		e.commit(a.ops)
		if a.asked {
			out = e.refuse(engine.RefusedOrder, out)
		}
	}
	e.act = action{}
	return out
}

func (e *Engine) answer(ev engine.Event, out []engine.Op) []engine.Op {
	a := &e.act
	done := a.ops
	switch {
	case a.phase == phaseNone, ev.Kind == engine.EvResume && ev.Req != a.req,
		ev.Kind == engine.EvFailed && (ev.Failed < 0 || ev.Failed >= a.ops):
		return append(out, engine.Op{Kind: engine.OpUnknown})
	case ev.Kind == engine.EvFailed:
		if done = ev.Failed; a.phase != phaseWait { // which says nothing of memory
			a.code, a.reason = ev.Code, engine.RefusedDevice
		}
	}
	return e.proceed(e.commit(done), done == a.ops, out)
}

// commit enters the first done calls of the batch into the books. It returns the
// phase that was.
func (e *Engine) commit(done int) phase {
	was := e.act.phase
	e.act.phase = phaseNone
	switch was {
	case phaseGrow:
		e.grown(done)
	case phaseAccess:
		if done == e.act.ops {
			e.settleIn(e.act.mapped)
		}
	case phaseUngrow:
		e.ungrown(done)
	case phaseStitch:
		e.stitched(done)
	case phaseDrop:
		e.dropped(done)
	case phaseWait:
		if e.act.synced = done == e.act.ops; e.act.synced {
			e.passAll()
		}
	case phaseUnhome:
		e.unhomed(done)
	case phaseRelease:
		e.released(done)
	}
	return was
}

// proceed goes on after commit; all says that the whole batch was done.
func (e *Engine) proceed(was phase, all bool, out []engine.Op) []engine.Op {
	a := &e.act
	switch was {
	case phaseGrow:
		a.grown = true
		if !all {
			return e.mend(out)
		}
	case phaseAccess:
		if !all {
			return e.ungrow(out)
		}
	case phaseStitch:
		if all {
			return e.grantView(out)
		}
		a.torn = true
		if v := &e.views[a.view]; v.dirty {
			v.burnt = true // queued work may use it: a trim, which waits, unmaps it
		} else if v.arena != 0 {
			e.picks = append(e.picks[:0], a.view)
			return e.unmapViews(out)
		}
	case phaseWait:
		if a.trimming {
			return e.dropIdle(out)
		}
		return e.adopt(out)
	case phaseDrop:
		if a.trimming {
			return e.unhomeIdle(out)
		}
	case phaseUnhome:
		if a.trimming {
			return e.release(out)
		}
		a.grown, a.full = false, false
	case phaseRelease:
		return e.trimEnded(out)
	}
	return e.goOn(out)
}

// goOn goes on with the request.
func (e *Engine) goOn(out []engine.Op) []engine.Op {
	e.act.attempt = attemptFit
	return e.try(out)
}
