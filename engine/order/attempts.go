package order

import (
	"stalloc/engine"
	"stalloc/internal/mem"
)

// stage is how far an event has come: a request from first on (package documentation), or from lent
// if it waits for lenders; any other event is polled, then settled.
type stage uint8

const (
	stageBegun stage = iota
	stagePolled
	stageLent
	stageFirst
	stageSecond
	stageRegions
	stageBorrow
	stageRollback
	stageSettled
)

// advance goes on until the runner has to answer, or the event is settled.
func (e *Engine) advance() {
	for {
		if e.act.polling && e.query() {
			return
		}
		if e.act.stage == stageSettled || !e.next() {
			return
		}
	}
}

// next does what comes at the event's stage; false: the policy has a batch under way.
func (e *Engine) next() bool {
	a := &e.act
	switch a.stage {
	case stageBegun:
		e.begun()
	case stagePolled:
		a.stage = stageSettled
		return e.event()
	case stageLent:
		if at, behind := e.fences.oldest(a.lenders...); behind && at <= a.wait.from &&
			a.now-a.wait.from < lastWait {
			e.comeAgain(engine.RefusedDevice)
			return true
		}
		a.stage = stageFirst
	case stageFirst:
		a.began, a.means = e.policy.Reserved(), e.preferences()
		return e.try(a.means, a.ev.Addr)
	case stageSecond:
		if asked := a.lenders[a.asked:]; e.fences.atWork(asked) {
			e.rule.borrowed += len(asked)
		}
		means := a.means &^ engine.MeansPoll
		if e.mayWait() {
			means |= engine.MeansWait
		}
		return e.try(means, a.ev.Addr)
	case stageRegions:
		a.began = e.policy.Reserved()
		return e.feed(engine.Event{Kind: engine.EvTrim, Pool: engine.Regions})
	case stageBorrow:
		return e.try(engine.MeansBorrow, 0)
	case stageRollback:
		if e.policy.Reserved() > a.before {
			return e.feed(engine.Event{Kind: engine.EvTrim, Rollback: true})
		}
		e.refuse()
	}
	return true
}

// begun names the event's stream, and says what comes first.
func (e *Engine) begun() {
	a := &e.act
	a.stage = stagePolled
	switch a.ev.Kind {
	case engine.EvAlloc:
		e.name(a.ev.Stream)
		e.mark()
		a.before = e.policy.Reserved()
		if a.stage = stageFirst; a.last {
			a.stage = stageLent
			e.poll(all)
		}
	case engine.EvUseStream:
		e.name(a.ev.Stream)
	case engine.EvBoundary, engine.EvTrim, engine.EvLend, engine.EvPoll:
		e.poll(all)
	}
}

func (e *Engine) event() bool {
	switch e.act.ev.Kind {
	case engine.EvPoll:
		return true
	case engine.EvBoundary:
		e.rule.endStep(e.act.now)
	}
	return e.feed(e.act.ev)
}

// preferences are what is better than new memory at the first attempt.
func (e *Engine) preferences() (m engine.Means) {
	a := &e.act
	m = a.ev.Means & (engine.MeansRoom | engine.MeansRise)
	if !e.cfg.NoPending && e.fences.n+e.fences.lateN > 0 {
		m |= engine.MeansPoll
	}
	if !e.cfg.NoPending && !e.cfg.NoLend && a.ev.CanWait && !a.wait.waited && a.ev.Pool == 0 &&
		!a.ev.Capturing && e.rule.mayBorrow(a.now) {
		m |= engine.MeansBorrow
	}
	return m
}

// mayWait reports whether the request may wait, or wait on: for its own stream or, if others lend
// for it, for those.
func (e *Engine) mayWait() bool {
	a, of := &e.act, []mem.StreamID{e.act.ev.Stream}
	if len(a.lenders) > 0 {
		of = a.lenders
	}
	oldest, behind := e.fences.oldest(of...)
	return !e.cfg.NoWait && a.ev.CanWait && behind && a.ev.Pool == 0 && !a.ev.Capturing &&
		e.rule.mayWait(&a.wait, a.now, oldest, len(a.lenders) > 0)
}

func (e *Engine) try(means engine.Means, planned mem.Addr) bool {
	ev := e.act.ev
	ev.Means, ev.Addr = means, planned
	e.act.asked = len(e.act.lenders)
	return e.feed(ev)
}

// outcome goes on after an attempt of the policy: by the stage and by how it ended.
func (e *Engine) outcome(last engine.Op) {
	a := &e.act
	if last.Kind == engine.OpRefuse { // not yet the runner's
		e.out, e.from = e.out[:len(e.out)-1], e.from[:len(e.from)-1]
		a.refusal = last
	}
	granted := last.Kind == engine.OpGrant
	pending := last.Kind == engine.OpRefuse && last.Reason == engine.RefusedPending
	switch {
	case a.stage == stageRegions:
		if e.full(); e.policy.Reserved() < a.began {
			a.stage = stageFirst
		}
	case a.stage == stageRollback:
		e.refuse()
	case a.stage == stageBorrow && pending:
		a.last = true
		e.comeAgain(engine.RefusedDevice)
	case a.stage == stageBorrow && !granted:
		a.stage = stageRollback
	case a.stage == stageFirst && pending:
		if a.stage = stageSecond; len(a.lenders) > a.asked {
			a.delay = idleDelay
		}
		e.poll(all)
	case pending:
		e.rule.borrowed += len(a.lenders) - a.asked
		a.wait.waited = true
		e.comeAgain(engine.RefusedPending)
	default:
		if a.wait.waited && a.ev.CanWait && a.stage != stageBorrow {
			e.rule.waited(&a.wait, a.now, granted && e.policy.Reserved() > a.began)
		}
		if a.stage == stageSecond {
			e.rule.borrowed += len(a.lenders) - a.asked
		}
		switch {
		case granted:
			a.stage = stageSettled
		case a.refusal.Reason.NoMemory(a.refusal.Code):
			e.full()
		default:
			a.stage = stageRollback
		}
	}
}

// full chooses what comes after a request was refused since there is no memory for it.
func (e *Engine) full() {
	a := &e.act
	switch {
	case a.ev.Means&engine.MeansRoom != 0:
		a.stage = stageRollback
	case !a.retried && !a.ev.Capturing && len(e.policy.Regions()) > 0:
		a.retried, a.stage = true, stageRegions
	case a.unsynced && !e.cfg.NoPending && !e.cfg.NoLend && !a.last:
		a.stage = stageBorrow
	default:
		a.stage = stageRollback
	}
}

func (e *Engine) comeAgain(why engine.Reason) {
	a := &e.act
	e.waits[a.ev.Req] = a.request
	e.put(engine.Op{Kind: engine.OpWait, Req: a.ev.Req, Reason: why}, -1)
	a.stage = stageSettled
}

// refuse answers a request with why the last attempt has failed.
func (e *Engine) refuse() {
	e.put(e.act.refusal, -1)
	e.act.stage = stageSettled
}
