package predict

import "stalloc/internal/mem"

// Large bounds what is predicted: requests above it are the tape of this package,
// all others it never sees. Scalars, logged values and the bookkeeping of batches
// lie below, and with them nearly all that differs between two steps by one request.
const Large = mem.MiB

const (
	// maxKinds bounds how many kinds of step are known.
	maxKinds = 8
	// maxEvents bounds the large requests and frees of a step. A longer one is not learned.
	maxEvents = 1 << 16
	// maxLive bounds the large live blocks that are followed.
	maxLive = 1 << 16
	// features is how many requests at the beginning of a step its sizes are derived from.
	features = 3
	// shortest is how many requests end a step at a valley. A boundary ends any.
	shortest = 64
	// maxDepth is the depth from which on the frees of a tape are not told apart.
	maxDepth = 24
)

// request is the token of a request. A free's is its depth.
const request = maxDepth + 1

// Ref names a large block between its request and its end.
type Ref int32

// None is no block.
const None Ref = -1

// Match says which position of which forecast a request is. Forecast is zero where it is none.
type Match struct {
	Forecast uint32
	Position int32
}

// Learner learns the steps of one stream and predicts the running one. New makes it.
type Learner struct {
	kinds [maxKinds]kind
	alive kindSet // kinds that the running step is a beginning of
	last  int     // kind of the step before, or noKind
	steps int64   // closed

	run    tape
	live   []block // free ones are linked by next
	newest Ref     // head of the list of live blocks, by falling age
	unused Ref
	held   mem.Bytes // rounded, of all blocks whose memory is in use
	peak   mem.Bytes // its largest
	load   mem.Bytes // of the blocks in that list
	valley mem.Bytes // its least since the running step began

	follower
}

// tape is the running step.
type tape struct {
	tokens  []uint8
	begins  []int32 // by request: its place in tokens
	seen    observation
	onRails int // tokens that some kind had too, in a row from the first
	tooLong bool
}

// block is a large block from its request until its end, which may come later than
// its free: then it is off the list already.
type block struct {
	older, newer Ref
	ordinal      int32 // of its request, in the step that made it
	rank         int32 // among the blocks that the running step inherited, from the newest; or noRank
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

// New returns a Learner that knows nothing.
func New() *Learner {
	l := &Learner{last: noKind, newest: None, unused: None}
	l.follower.kind = noKind
	return l
}

// Alloc notes a large request, of as many bytes as were asked for, and says which
// position it is of the forecast in force. At the fourth request of a step, and where it turns out
// to be of another kind, the forecast is a new one.
func (l *Learner) Alloc(size mem.Bytes) (Ref, Match) {
	if size <= Large {
		return None, Match{}
	}
	if l.isOver() {
		l.next()
	}
	tick := int32(len(l.run.tokens))
	l.token(request)
	ordinal := int32(len(l.run.begins))
	if l.run.tooLong {
		ordinal = -1
	} else {
		l.run.begins = append(l.run.begins, tick)
		l.run.seen.sizes = append(l.run.seen.sizes, size)
		l.run.seen.ends = append(l.run.seen.ends, 0)
		if ordinal < features {
			l.run.seen.features[ordinal] = size
		}
	}
	m := l.follow(ordinal, size)
	return l.enter(mem.Round(size), ordinal), m
}

// Free notes the program's free of a block.
func (l *Learner) Free(r Ref) {
	if r < 0 || int(r) >= len(l.live) || l.live[r].state != liveBlock {
		return
	}
	depth := uint8(0)
	for at := l.newest; at != r && depth < maxDepth; at = l.live[at].older {
		depth++
	}
	l.leave(r)
	l.token(depth)
}

// Done notes that the memory of a freed block may serve another request: at once,
// or later where other streams used it.
func (l *Learner) Done(r Ref) {
	if r < 0 || int(r) >= len(l.live) || l.live[r].state == unusedBlock {
		return
	}
	l.Free(r)
	b := &l.live[r]
	now := int32(len(l.run.tokens))
	switch {
	case l.run.tooLong:
	case b.step == l.steps:
		l.run.seen.ends[b.ordinal] = now
	case b.rank != noRank:
		l.run.seen.leaves = append(l.run.seen.leaves, leave{b.rank, now, b.size})
	}
	l.held -= b.size
	*b = block{newer: l.unused}
	l.unused = r
}

// Boundary ends the step.
func (l *Learner) Boundary() { l.next() }

// Now returns how many events of the running step there were.
func (l *Learner) Now() mem.Tick { return mem.Tick(len(l.run.tokens)) }

func (l *Learner) token(t uint8) {
	if len(l.run.tokens) == maxEvents {
		l.run.tooLong = true
		l.alive = 0
		return
	}
	if l.alive = l.agree(l.alive, len(l.run.tokens), t); l.alive != 0 {
		l.run.onRails++
	}
	l.run.tokens = append(l.run.tokens, t)
}

// isOver reports whether the running step ends before a request although nobody marked a
// boundary: it began like a kind that is known, none goes on like this, and no more is live
// than when least was. An evaluation in front of a training step ends so.
func (l *Learner) isOver() bool {
	return l.load <= l.valley && len(l.run.begins) >= shortest && l.run.onRails >= shortest &&
		l.agree(l.alive, len(l.run.tokens), request) == 0
}

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

// next closes the running step and begins another.
func (l *Learner) next() {
	l.settle()
	if n := len(l.run.begins); n > features && !l.run.tooLong {
		l.learn()
	} else if n > 0 {
		l.last = noKind
	}
	l.run.tokens, l.run.begins = l.run.tokens[:0], l.run.begins[:0]
	l.run.seen.reset()
	l.run.tooLong, l.run.onRails = false, 0
	l.alive = l.known()
	l.valley = l.load
	// Only what the step before made is ranked: what is older stays for good, as far
	// as anybody knows.
	rank := int32(0)
	for r := l.newest; r != None && l.live[r].step == l.steps; r = l.live[r].older {
		l.live[r].rank = rank
		rank++
	}
	l.steps++
}
