package gmlake

import (
	"slices"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// An action is what the last batch of ops belongs to. A batch that calls the
// driver ends with OpResume; EvResume says that all of it was done, EvFailed how
// much, and commit enters just that into the books. Then the action goes on:
//
//	grow ─────► granted              failed: scrap ► release ► try
//	stitch ───► granted              failed: scrap ► sweep, and once more
//	wait ► drop ► unmap ► release    a sweep; failed: the next phase, with what is left
type phase uint8

const (
	phaseNone phase = iota
	phaseGrow
	phaseStitch
	phaseScrap
	phaseWait
	phaseDrop
	phaseUnmap
	phaseRelease
)

// action is what the last batch of ops belongs to.
type action struct {
	request
	batch
	sweeping
}

// request is what is served, and what was tried for it.
type request struct {
	asked    bool // there is one
	req      uint64
	size     mem.Bytes // asked for, rounded to 512 bytes
	slack    mem.Bytes // by which it was rounded
	n        mem.Bytes // what a block must have
	segment  mem.Bytes // what a new segment has
	heap     int32
	kind     kind
	attempts []attempt
	swept    bool // idle sBlocks have been dropped for a stitch
	reason   engine.Reason
	code     int
}

// batch is what the driver is asked to do.
type batch struct {
	phase     phase
	ops       int    // driver calls
	page      uint32 // first of the addresses being mapped
	pages     int
	creates   int
	mapped    int     // phaseScrap
	attempt   attempt // phaseStitch
	stitching bool    // phaseScrap: the mapping was to be an sBlock
}

// sweeping is what gives memory back.
type sweeping struct {
	sweep  sweep
	synced bool   // the device has been waited for
	pool   uint64 // whose memory
}

// await ends a batch with OpResume.
func (p *Pool) await(ph phase, out []engine.Op) []engine.Op {
	p.act.phase = ph
	return append(out, engine.Op{Kind: engine.OpResume, Req: p.act.req})
}

func (p *Pool) answer(ev engine.Event, out []engine.Op) []engine.Op {
	a := &p.act
	done := a.ops
	if ev.Kind == engine.EvFailed {
		if done = ev.Failed; a.phase != phaseWait { // which says nothing of memory
			a.code, a.reason = ev.Code, engine.RefusedDevice
		}
	}
	return p.proceed(p.commit(done), out)
}

// commit enters the first done calls of the batch into the books. It returns the
// block that is complete now, held, or none.
func (p *Pool) commit(done int) int32 {
	switch p.act.phase {
	case phaseGrow:
		return p.grown(done)
	case phaseStitch:
		return p.stitched(done)
	case phaseScrap:
		p.stats.Mapped -= p.act.mapped
		mapped := slices.Clone(p.picks[:p.act.mapped])
		p.leftovers = append(p.leftovers, leftover{p.act.page, p.act.pages, mapped})
		if done > 0 {
			p.collected(len(p.leftovers) - 1)
		}
	case phaseWait:
		if p.act.synced = done == p.act.ops; p.act.synced {
			p.passAll()
		}
	case phaseDrop:
		p.dropped(done)
	case phaseUnmap:
		p.gone(done)
	case phaseRelease:
		p.released(done)
	}
	return none
}

// proceed goes on after commit.
func (p *Pool) proceed(b int32, out []engine.Op) []engine.Op {
	a := &p.act
	was := a.phase
	a.phase = phaseNone
	if b != none {
		return p.grant(b, out)
	}
	switch was {
	case phaseGrow, phaseStitch:
		return p.scrap(was == phaseStitch, out)
	case phaseScrap:
		return p.scrapped(out)
	case phaseWait:
		return p.drop(out)
	case phaseDrop:
		return p.unmap(out)
	case phaseUnmap:
		return p.release(out)
	case phaseRelease:
		return p.try(out)
	}
	return out
}
