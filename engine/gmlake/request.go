package gmlake

import (
	"stalloc/engine"
	"stalloc/internal/mem"
)

// attempt is one way to serve a request.
type attempt uint8

const (
	attemptFit     attempt = iota // a free block
	attemptReuse                  // an idle sBlock
	attemptStitch0                // a new sBlock, before new memory
	attemptStitch1                // after new memory was refused
	attemptStitch2                // after the flush
	attemptGrow                   // a new segment
	attemptFlush                  // return every wholly free segment, and try on
)

var (
	smallAttempts = []attempt{attemptFit, attemptGrow, attemptFlush, attemptGrow}
	largeAttempts = []attempt{attemptFit, attemptReuse, attemptStitch0, attemptGrow, attemptStitch1,
		attemptFlush, attemptGrow, attemptStitch2}
)

// alloc starts to serve a request.
func (p *Pool) alloc(ev engine.Event, out []engine.Op) []engine.Op {
	p.act = action{request: request{asked: true, req: ev.Req, reason: engine.RefusedDevice}}
	a := &p.act
	if ev.Asked < 0 || ev.Asked > p.cfg.Window/2 {
		return p.refuse(engine.RefusedSize, out)
	}
	a.size = mem.Round(ev.Asked)
	a.n, a.slack = a.size, a.size-ev.Asked
	if a.n <= smallLimit {
		a.kind, a.segment, a.attempts = small, pageSize, smallAttempts
	} else {
		a.n = mem.RoundUp(a.n, pageSize)
		a.segment, a.attempts = a.n, largeAttempts
		if a.n < segmentBig {
			a.segment = segmentMost
		}
	}
	a.heap = p.heapOf(ev.Stream, ev.Pool)
	return p.try(out)
}

// try tries the attempts that are left. Without a request there is none.
func (p *Pool) try(out []engine.Op) []engine.Op {
	a := &p.act
	if !a.asked {
		return out
	}
	for len(a.attempts) > 0 {
		r := a.attempts[0]
		a.attempts = a.attempts[1:]
		b, ok := none, false
		switch r {
		case attemptFit:
			b = p.fit()
		case attemptReuse:
			b = p.reuse()
		case attemptStitch0, attemptStitch1, attemptStitch2:
			out, ok = p.stitch(r, out)
		case attemptGrow:
			out, ok = p.grow(out)
		case attemptFlush:
			return p.sweep(sweepFlush, out)
		}
		if b != none {
			p.stats.Fits++
			return p.grant(b, out)
		}
		if ok {
			return out
		}
	}
	return p.refuse(a.reason, out)
}

// fit takes the smallest free block that holds the request.
func (p *Pool) fit() int32 {
	a := &p.act
	set := &p.heaps[a.heap].free[a.kind]
	i, ok := set.ceil(a.n)
	if !ok {
		return none
	}
	b := set.entries[i].block
	p.removeFree(b)
	return b
}

// cut gives back what a held block has beyond n bytes, if that is worth a block.
func (p *Pool) cut(b int32, n mem.Bytes) {
	least := pageSize
	if p.blocks[b].kind == small {
		least = mem.Grain
	}
	if p.blocks[b].size >= n+least {
		p.insertFree(p.split(b, n))
	}
}

// grant hands out a held block. An sBlock is handed out whole.
func (p *Pool) grant(b int32, out []engine.Op) []engine.Op {
	a := &p.act
	if p.blocks[b].kind != stitched {
		p.cut(b, a.n)
	}
	if p.blocks[b].kind == large {
		p.shift(b, -1)
	}
	p.charge(b, a.size, a.slack)
	out = append(out, engine.Op{Kind: engine.OpGrant, Req: a.req, Addr: p.blocks[b].addr,
		Size: a.size})
	p.act = action{}
	return out
}

// refuse answers the request with a reason.
func (p *Pool) refuse(why engine.Reason, out []engine.Op) []engine.Op {
	p.stats.Refused++
	out = append(out, engine.Op{Kind: engine.OpRefuse, Req: p.act.req, Reason: why,
		Code: p.act.code})
	p.act = action{}
	return out
}
