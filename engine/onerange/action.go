package onerange

import (
	"stalloc/engine"
	"stalloc/internal/mem"
)

// phase is what the driver is asked to do by the last batch. A batch that calls the driver ends
// with OpResume; EvResume says that all of it was done, EvFailed how much, and just that is entered
// into the books. Then:
//
//	phase        asks the driver to                  then, if all was done    or else
//	grow         make and map new handles            retry                    drop, or retry
//	stitch       map handles under a view            grant                    drop, or retry
//	drop         unmap views                         retry, or unmapPlaces    the same
//	wait         wait for all its work               adopt, or drop           the same, without what
//	                                                                          others may still use
//	unmapPlaces  unmap free handles from an arena    retry, or release        the same
//	release      take unmapped handles back          the trim ends, or retry  the same
//
// Of two, the second is a trim's, or that part of a request that gives back all that is free.
type phase uint8

const (
	phaseNone phase = iota
	phaseGrow
	phaseStitch
	phaseDrop
	phaseWait
	phaseUnmapPlaces
	phaseRelease
)

// action is what the last batch of ops belongs to.
type action struct {
	request
	batch
	trimming
}

// request is what was asked for, and what was tried for it.
type request struct {
	req   uint64
	size  mem.Bytes // asked for
	n     unit      // rounded
	means engine.Means
	arena uint32

	unrounded     bool // the driver gave less than the shortfall rounded up
	createFailed  bool // the driver gave no new memory
	triedUnmapped bool // and unmapped handles were tried instead
	viewFailed    bool // no view could be made
	wholeHandles  bool // a new view is to be of whole handles
	waited        bool // the device was waited for, if it could be
	remade        bool // all that is free was, or is being, given back for it
	reason        engine.Reason
	code          int
}

// batch is what the driver is asked to do. What is mapped are the picks, from a place in a void on,
// or under a view.
type batch struct {
	phase   phase
	ops     int  // driver calls
	synced  bool // the device was waited for
	void    int
	at      unit
	creates int  // of the picks, the last ones are made
	rounded bool // they are more than the shortfall
	view    uint32
	offset  unit // of the block in the view
}

// trimming is whose memory goes back to the driver.
type trimming struct {
	active    bool
	pool      uint64
	requested bool // by the program
	enough    unit // no more need be given back; 0: all
}

// prefers reports whether something is to come before memory is made for the request.
func (r *request) prefers(m engine.Means) bool { return r.means&m != 0 }

func (e *Engine) await(ph phase, out []engine.Op) []engine.Op {
	e.act.phase = ph
	return append(out, engine.Op{Kind: engine.OpResume, Req: e.act.req})
}

// answer enters the calls of the batch that were done into the books, and goes on.
func (e *Engine) answer(ev engine.Event, out []engine.Op) []engine.Op {
	a := &e.act
	was, done := a.phase, a.ops
	a.phase = phaseNone
	if ev.Kind == engine.EvFailed {
		if done = ev.Failed; was != phaseWait { // which says nothing of memory
			a.code, a.reason = ev.Code, engine.RefusedDevice
		}
	}
	all := done == a.ops
	switch was {
	case phaseGrow:
		if e.grown(done); !all {
			return e.ungrow(out)
		}
	case phaseStitch:
		if e.stitched(done); all {
			return e.grantView(out)
		}
		a.viewFailed = true
		if v := &e.views[a.view]; v.dirty {
			v.unmapFailed = true // queued work may use it: a trim, which waits, unmaps it
		} else if v.arena != 0 {
			e.picks = append(e.picks[:0], a.view)
			return e.unmapViews(out)
		}
	case phaseDrop:
		if e.dropped(done); a.trimming.active {
			return e.unmapIdle(out)
		}
	case phaseWait:
		if a.synced = all; all {
			e.passAll()
		}
		if a.trimming.active {
			return e.dropIdle(out)
		}
		return e.adopt(out)
	case phaseUnmapPlaces:
		if e.placesUnmapped(done); a.trimming.active {
			return e.release(out)
		}
		a.createFailed = false
	case phaseRelease:
		e.released(done)
		return e.trimEnded(out)
	}
	return e.serve(out)
}
