package order

import "stalloc/engine"

// proceed hands the policy the answer to its batch.
func (e *Engine) proceed(ev engine.Event) {
	a := &e.act
	if a.syncing {
		a.syncing = false
		if a.unsynced = ev.Kind == engine.EvFailed && ev.Failed == 0; !a.unsynced {
			e.fences.synced()
		}
	}
	if e.feed(ev) {
		e.advance()
	}
}

// feed hands the policy an event, and its batch to the runner: fences become events of the driver
// where their streams may be named. It reports whether the event is settled for the policy: then
// the stage is the next one.
func (e *Engine) feed(ev engine.Event) bool {
	a := &e.act
	e.batch = e.policy.Step(ev, e.batch[:0])
	for i := range e.batch {
		switch op := e.batch[i]; op.Kind {
		case engine.OpFence:
			e.fence(op)
		case engine.OpSync:
			if a.ev.Capturing { // it would end the capture
				a.unsynced = true
				return e.feed(engine.Event{Kind: engine.EvFailed, Failed: i, Req: a.ev.Req})
			}
			if a.syncing = true; a.ev.Kind == engine.EvAlloc { // is this stream captured?
				e.record(a.ev.Stream, true, i)
			}
			e.put(op, i)
		default:
			e.put(op, i)
		}
	}
	n := len(e.batch)
	if n > 0 && e.batch[n-1].Kind == engine.OpResume {
		return false
	}
	if a.stage != stageSettled {
		last := engine.Op{}
		if n > 0 {
			last = e.batch[n-1]
		}
		e.outcome(last)
	}
	return true
}

// fence makes a fence of the policy wait for the work of a stream.
func (e *Engine) fence(op engine.Op) {
	a, w := &e.act, waiter{fence: op.Fence, urgent: op.Addr == 0}
	if a.ev.Kind == engine.EvFree && w.urgent {
		w.freed, _ = e.policy.Lookup(a.ev.Addr)
	}
	if a.ev.Kind == engine.EvFree && a.ev.Idle {
		e.fences.passed = append(e.fences.passed, w)
		return
	}
	if a.ev.Kind == engine.EvAlloc {
		a.lenders = append(a.lenders, op.Stream)
		a.wait.from, a.wait.stalled = a.now, true
	}
	e.fences.add(op.Stream, w)
	// The stream of a view, for whose addresses this waits, may be gone when the block is freed.
	if w.urgent && !a.ev.Deferred {
		e.name(op.Stream)
	}
}
