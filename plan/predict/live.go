package predict

import "stalloc/internal/mem"

// Ref names a large block between its request and its end.
type Ref int32

// None is no block.
const None Ref = -1

// maxLive bounds the large live blocks that are followed.
const maxLive = 1 << 16

// block is a large block from its request until its end, which may come later than
// its free: then it is off the list already.
type block struct {
	older, newer Ref
	ordinal      int32 // of its request, in the step that made it
	rank         int32 // among those the next step inherits from that one, the newest first; or noRank
	step         int64 // the one that made it
	size         mem.Bytes
	state        uint8
}

const (
	unusedBlock uint8 = iota
	liveBlock
	freedBlock // freed, but its memory is still in use
)

const noRank int32 = -1

// enter puts a new block at the head of the list.
func (l *Learner) enter(size mem.Bytes, ordinal int32) Ref {
	r := l.unused
	switch {
	case r != None:
		l.unused = l.live[r].newer
	case len(l.live) == maxLive:
		return None
	default:
		r = Ref(len(l.live))
		l.live = append(l.live, block{})
	}
	l.live[r] = block{older: l.newest, newer: None, ordinal: ordinal, rank: noRank, step: l.steps, size: size, state: liveBlock}
	l.held += size
	l.peak = max(l.peak, l.held)
	if ordinal < 0 {
		l.live[r].step = -1
	}
	if l.newest != None {
		l.live[l.newest].newer = r
	}
	l.newest = r
	l.load += size
	return r
}

// leave takes a block off the list.
func (l *Learner) leave(r Ref) {
	b := &l.live[r]
	b.state = freedBlock
	if b.older != None {
		l.live[b.older].newer = b.newer
	}
	if b.newer != None {
		l.live[b.newer].older = b.older
	} else {
		l.newest = b.older
	}
	l.load -= b.size
	l.valley = min(l.valley, l.load)
}

// rank numbers the blocks that the step being closed leaves to the next. What is older is not
// ranked: it stays for good, as far as anybody knows.
func (l *Learner) rank() {
	rank := int32(0)
	for r := l.newest; r != None && l.live[r].step == l.steps; r = l.live[r].older {
		l.live[r].rank = rank
		rank++
	}
}
