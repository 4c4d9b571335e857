package engine

import (
	"slices"

	"stalloc/internal/mem"
)

// A rung of the ladder a request climbs when it cannot be served: each offers
// memory that the rungs below it left alone.
type rung uint8

const (
	rungFirst   rung = iota // with slack
	rungStitch              // no slack: every free handle of the heap first
	rungIdle                // idle handles of other streams, after waiting for those
	rungPending             // blocks that wait for fences, after waiting for all streams
	rungRefuse
)

// climb takes the request to the next rung and tries again.
func (e *Engine) climb(out []Op) []Op {
	a := &e.act
	for {
		a.rung++
		switch a.rung {
		case rungStitch:
			if a.slack || !e.cfg.Stitch {
				return e.place(out)
			}
		case rungIdle:
			if got, ok := e.waitIdle(out); ok {
				return got
			}
		case rungPending:
			if got, ok := e.waitAll(out); ok {
				return got
			}
		default:
			return e.refuse(a.reason, out)
		}
	}
}

// donor reports whether handles of heap x may move to heap h once its stream has
// been waited for.
func (e *Engine) donor(x int, h uint32) bool {
	return uint32(x) != h && !e.keeps(uint32(x)) && e.heaps[x].freeCount > 0
}

// waitIdle waits for the streams whose idle handles cover what is missing.
func (e *Engine) waitIdle(out []Op) ([]Op, bool) {
	start := len(out)
	if out = e.syncDonors(nil, out); len(out) == start {
		return out, false
	}
	e.act.phase = phaseWaitIdle
	return e.wait(out), true
}

// syncDonors waits for as many streams as it takes, but for those waited for already and
// those that cannot be.
func (e *Engine) syncDonors(waited []mem.StreamID, out []Op) []Op {
	missing := e.act.short
	for x := 1; x < len(e.heaps) && missing > 0; x++ {
		s := e.heaps[x].stream
		if !e.donor(x, e.act.heap) || slices.Contains(e.unwaited, s) {
			continue
		}
		if !slices.Contains(waited, s) {
			out = e.sync(s, out)
		}
		missing -= e.heaps[x].freeCount
	}
	return out
}

// adoptIdle moves the missing handles from the heaps that waitIdle waited for.
func (e *Engine) adoptIdle() {
	a := &e.act
	for x := 1; x < len(e.heaps); x++ {
		if !e.waited(uint32(x)) {
			continue
		}
		for a.short > 0 && e.donor(x, a.heap) {
			e.adopt(e.heaps[x].free, a.heap)
			a.short--
		}
	}
}

// waitAll waits for every stream that a pending block waits for, and for the
// streams whose handles may then be moved.
func (e *Engine) waitAll(out []Op) ([]Op, bool) {
	if e.stats.Pending == 0 {
		return out, false
	}
	start := len(out)
	for x := 1; x < len(e.heaps); x++ {
		if h := &e.heaps[x]; !e.keeps(uint32(x)) && uint32(x) != e.act.heap && !syncs(out[start:], h.stream) {
			out = e.sync(h.stream, out)
		}
	}
	for b := range e.blocks {
		if e.blocks[b].state != blockPending {
			continue
		}
		for u := e.blocks[b].users; u != 0; u = e.users[u].next {
			if e.users[u].fence != 0 && !syncs(out[start:], e.users[u].stream) {
				out = e.sync(e.users[u].stream, out)
			}
		}
	}
	e.act.phase = phaseWaitAll
	return e.wait(out), true
}

// sync appends a wait for a stream.
func (e *Engine) sync(s mem.StreamID, out []Op) []Op {
	e.stats.Syncs++
	e.synced = append(e.synced, s)
	return append(out, Op{Kind: OpSync, Stream: s})
}

// waited reports whether this action has waited for the stream of a heap.
func (e *Engine) waited(h uint32) bool { return slices.Contains(e.synced, e.heaps[h].stream) }

// syncs reports whether ops wait for stream s.
func syncs(ops []Op, s mem.StreamID) bool {
	for i := range ops {
		if ops[i].Kind == OpSync && ops[i].Stream == s {
			return true
		}
	}
	return false
}
