package engine

import "slices"

// An action is what the last batch of ops belongs to, kept so that a failure can
// be undone and OpResume continued. Work that depends on a driver call having
// succeeded (a wait, an unmap) is never done in the batch that asks for the call:
// the batch ends with OpResume, and EvResume does the work.
//
//	place ──────────────► granted        failed: undo, then climb the ladder
//	waitIdle, waitAll ──► place          a wait that fails leaves its stream out
//	evictWait ► evictUnmap ► place       failed: keep what is still mapped, go on
//	patch ► place                        failed: keep what is still mapped, go on
//	trimWait ► trimUnmap ► trimRelease   failed: keep the rest, stop
//	recordFences ► recordWait            failed: wait for the stream instead
type phase uint8

const (
	phaseNone phase = iota
	phasePlace
	phaseRefused // only in a batch that also undoes the last one
	phaseWaitIdle
	phaseWaitAll
	phaseEvictWait
	phaseEvictUnmap
	phasePatch
	phaseTrimWait
	phaseTrimUnmap
	phaseTrimRelease
	phaseRecord
	phaseRecordWait
	phasePrepare
)

type action struct {
	phase   phase
	waiting bool // the batch ends with OpResume
	synced  int  // of e.synced, how many waits are known to have succeeded
	ops     int  // ops in the batch

	// The request served, if any.
	asked   bool
	req     uint64
	n       unit
	heap    uint32
	list    uint32
	hint    uint32
	whole   bool
	room    uint32 // pages that an arena may need later
	most    int    // handles to hold at most, 0: no bound
	quick   bool
	less    uint16 // bytes of n that are not asked for
	rung    rung
	slack   bool // this attempt used slack
	apart   bool // this attempt makes a private view of a big block
	evicted bool // this request has evicted already
	swept   bool // this request has taken the idle handles of every stream
	full    bool // the driver has refused to create a handle
	short   int  // handles that the last attempt lacked
	reason  Reason
	code    int

	// What the batch of phasePlace does: [undo] creates maps access grant.
	undo     int // ops at the batch's beginning that undo the one before
	view     uint32
	opened   bool // the view is new
	creates  int
	maps     int
	firstNew int    // among the picks
	after    uint32 // the view of the arena to lengthen
	from     uint32 // page of that view where the new part begins
	block    uint32

	peaks peaks // before the batch of phasePlace

	pool  uint64 // trim
	fence uint64 // phaseRecord: the first fence of the batch
}

// limbo holds addresses whose pages the current batch unmaps: free for use once
// the batch has gone through, never used again if the unmap fails. They are a
// whole extent, or the room behind the last page of a view.
type limbo struct {
	base  uint32 // zero: no extent
	class uint8
	view  uint32 // zero: no view
	room  uint32
}

// unmapped remembers one page of an unmap batch, to restore it on failure.
type unmapped struct {
	page, handle uint32
	op           int
}

// settle ends the last action when an ordinary event shows that its batch went
// through. A request still waiting for EvResume is refused: the runner broke the
// order, and the request must not stay unanswered.
func (e *Engine) settle(out []Op) []Op {
	e.freeLimbo()
	if e.act.waiting && e.act.asked {
		out = e.refuse(RefusedOrder, out)
	}
	if e.act.phase == phaseEvictUnmap || e.act.phase == phaseTrimUnmap {
		e.closeEmpty()
	}
	e.act = action{}
	e.synced, e.unwaited = e.synced[:0], e.unwaited[:0]
	return out
}

func (e *Engine) freeLimbo() {
	if e.limbo.base != 0 {
		e.extents.put(e.limbo.base, e.limbo.class)
	}
	if e.limbo.view != 0 {
		e.views[e.limbo.view].room = e.limbo.room
	}
	e.limbo = limbo{}
}

// resume continues after OpResume.
func (e *Engine) resume(ev Event, out []Op) []Op {
	a := &e.act
	if !a.waiting || ev.Req != a.req {
		return append(out, Op{Kind: OpUnknown})
	}
	e.freeLimbo()
	a.waiting, a.undo = false, 0
	e.passSynced()
	a.synced = len(e.synced)
	switch a.phase {
	case phaseWaitIdle:
		e.adoptIdle()
		return e.place(out)
	case phaseWaitAll:
		return e.place(out)
	case phaseEvictWait:
		a.phase = phaseEvictUnmap
		return e.wait(e.unmapIdle(out))
	case phaseEvictUnmap:
		e.closeEmpty()
		a.phase = phaseNone
		if a.asked {
			return e.place(out)
		}
		return out
	case phasePatch:
		e.undo = e.undo[:0]
		return e.fill(out)
	case phaseTrimWait:
		a.phase = phaseTrimUnmap
		return e.wait(e.unmapFree(out))
	case phaseTrimUnmap:
		e.closeEmpty()
		a.phase = phaseTrimRelease
		return e.releaseFree(out)
	case phaseRecordWait:
		a.phase = phaseNone
	}
	return out
}

// wait ends the batch with OpResume.
func (e *Engine) wait(out []Op) []Op {
	e.act.waiting = true
	return append(out, Op{Kind: OpResume, Req: e.act.req})
}

// failed undoes what the last batch did not do and goes on with the next best.
func (e *Engine) failed(ev Event, out []Op) []Op {
	a := &e.act
	if a.phase == phaseNone || ev.Failed < 0 || ev.Failed >= a.ops {
		return append(out, Op{Kind: OpUnknown})
	}
	a.waiting, a.code = false, ev.Code
	at := ev.Failed
	if undo := a.undo; undo > 0 {
		a.undo = 0
		if at < undo {
			e.synced = e.synced[:a.synced]
			return e.redo(out)
		}
		at -= undo
	}
	e.freeLimbo()
	switch a.phase {
	case phaseWaitIdle, phaseWaitAll, phaseEvictWait, phaseTrimWait, phaseRecordWait:
		return e.waitOthers(at, out)
	}
	e.synced = e.synced[:a.synced]
	switch a.phase {
	case phasePlace:
		a.reason = RefusedDevice
		a.full = a.full || at < a.creates
		out = e.undoPlace(at, out)
		return e.climb(out)
	case phaseEvictUnmap:
		e.remap(at)
		e.closeEmpty()
		a.phase = phaseNone
		if a.asked {
			return e.place(out)
		}
	case phasePatch:
		e.remap(at)
		e.views[a.view].lost = true // not worth a second attempt
		return e.place(out)
	case phaseTrimUnmap:
		e.remap(at)
		e.closeEmpty()
		a.phase = phaseTrimRelease
		return e.releaseFree(out)
	case phaseTrimRelease:
		e.unrelease(at)
		a.phase = phaseNone
	case phasePrepare:
		e.unprepare(at)
	case phaseRecord:
		return e.waitUnrecorded(at, out)
	}
	return out
}

// waitOthers goes on without a stream that could not be waited for, because it is being
// captured into a graph or is gone: what it has stays as it is, nothing proves it idle.
func (e *Engine) waitOthers(at int, out []Op) []Op {
	a := &e.act
	a.synced += at
	e.unwaited = append(e.unwaited, e.synced[a.synced])
	e.synced = slices.Delete(e.synced, a.synced, a.synced+1)
	for _, s := range e.synced[a.synced:] {
		out = append(out, Op{Kind: OpSync, Stream: s})
	}
	if a.phase == phaseWaitIdle { // others may have what it will not give
		out = e.syncDonors(e.synced, out)
	}
	return e.wait(out)
}

// redo repeats a batch whose first op, the unmap that undid the batch before,
// failed. What is still mapped there stays: those addresses are never used again.
func (e *Engine) redo(out []Op) []Op {
	a := &e.act
	if e.limbo.view != 0 {
		e.views[e.limbo.view].lost = true
	}
	e.limbo = limbo{}
	switch a.phase {
	case phasePlace:
		return e.place(e.undoPlace(0, out))
	case phaseWaitIdle, phaseWaitAll:
		a.rung--
		return e.climb(out)
	case phasePatch:
		e.remap(0)
		return e.place(out)
	case phaseEvictWait:
		a.evicted = false
		return e.place(out)
	}
	return e.refuse(a.reason, out)
}

// waitUnrecorded replaces the fences that could not be recorded by waiting for
// their streams.
func (e *Engine) waitUnrecorded(at int, out []Op) []Op {
	a := &e.act
	a.fence += uint64(at)
	if x := e.fenceAt.get(e.fences); x&viewFence != 0 {
		e.fenceAt.del(e.fences) // the last of the batch, so not recorded either
		e.views[x&^viewFence].fence = 0
	}
	b := e.fenceAt.get(a.fence)
	if b == 0 {
		a.phase = phaseNone
		return out
	}
	for u := e.blocks[b].users; u != 0; u = e.users[u].next {
		if e.users[u].fence >= a.fence {
			out = e.sync(e.users[u].stream, out)
		}
	}
	a.phase = phaseRecordWait
	return e.wait(out)
}
