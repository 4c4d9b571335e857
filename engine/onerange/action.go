package onerange

import (
	"stalloc/engine"
	"stalloc/internal/mem"
)

// An action is what the last batch of ops belongs to. A batch that calls the driver
// ends with OpResume; EvResume says that all of it was done, EvFailed how much, and
// commit enters just that into the books. Then the action goes on:
//
//	grow ──► climb                    failed: access what was mapped, or ungrow ──► climb
//	stitch ──► granted                failed: drop the view ──► climb
//	wait ──► unhome ──► climb         idle memory of other streams
//	wait ──► climb                    blocks that wait for fences
//	wait ──► drop ──► unhome ──► release    a trim
//	record                            failed: recordWait
//
// Only record needs no answer if it succeeds.
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
	phaseRecord
	phaseRecordWait
)

type action struct {
	phase phase
	ops   int // driver calls in the batch

	// The request, if any.
	asked         bool
	req           uint64
	size          mem.Bytes // asked for
	n             unit
	wish          unit // 0: none
	stay          bool // no memory is made for it
	brief         bool // it goes to its gap's end
	heap          uint32
	space         uint32
	rung          rung
	grown         bool // new memory was made for it
	full          bool // the driver gave none
	spared        bool // and spares were tried instead
	torn          bool // no view could be made
	moved, waited bool
	renewed       bool // all that is free was given back for it
	reason        engine.Reason
	code          int

	// What is being mapped: the picks from at on, to be a place in void.
	void     int
	at       unit
	before   unit // of the block that lies before its view; < 0: how far behind its start
	creates  int  // of the picks, the last ones
	mapped   int  // phaseAccess, phaseUngrow: of the picks
	view     uint32
	trimming bool
	again    unit   // a rebuild: to be held again
	pool     uint64 // trimming: whose memory
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
	if a := &e.act; a.phase != phaseNone && a.phase != phaseRecord {
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
	case a.phase == phaseNone, ev.Kind == engine.EvResume && (a.phase == phaseRecord || ev.Req != a.req),
		ev.Kind == engine.EvFailed && (ev.Failed < 0 || ev.Failed >= a.ops):
		return append(out, engine.Op{Kind: engine.OpUnknown})
	case ev.Kind == engine.EvFailed:
		done, a.code, a.reason = ev.Failed, ev.Code, engine.RefusedDevice
	}
	if a.phase == phaseRecord {
		return e.waitUnrecorded(done, out)
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
	case phaseWait, phaseRecordWait:
		e.unwaited = append(e.unwaited[:0], e.synced[min(done+1, len(e.synced)):]...)
		e.synced = e.synced[:done]
		e.passSynced()
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
		} else if v.space != 0 {
			e.picks = append(e.picks[:0], a.view)
			return e.unmapViews(out)
		}
	case phaseWait:
		e.waitedFor = append(e.waitedFor, e.synced...)
		if e.synced = e.synced[:0]; len(e.unwaited) > 0 { // one stream cannot be waited for: the others can
			for _, id := range e.unwaited {
				out = e.sync(id, out)
			}
			return e.await(phaseWait, out)
		}
		e.synced, e.waitedFor = append(e.synced, e.waitedFor...), e.waitedFor[:0]
		if a.trimming {
			return e.dropIdle(out)
		}
		return e.waited(out)
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
	case phaseRecordWait:
		return out
	}
	if !a.asked {
		return out
	}
	a.rung = rungWish
	return e.climb(out)
}
