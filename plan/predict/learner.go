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
	// features is how many requests at the beginning of a step its sizes are derived from.
	features = 3
	// shortest is how many requests end a step at a valley. A boundary ends any.
	shortest = 64
	// maxDepth is the depth from which on the frees of a tape are not told apart.
	maxDepth = 24
)

// request is the token of a request. A free's is its depth.
const request = maxDepth + 1

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
	live   []block // the unused ones are linked by newer
	newest Ref     // head of the list of live blocks, the older ones behind
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
	frees   []int32 // by request: the place behind its free
	seen    observation
	onRails int // tokens that some kind had too, in a row from the first
	tooLong bool
}

// notYet is the place of an end that has not come.
const notYet int32 = maxEvents

// New returns a Learner that knows nothing.
func New() *Learner {
	l := &Learner{last: noKind, newest: None, unused: None}
	l.follower.kind = noKind
	return l
}

// Alloc notes a large request, of as many bytes as were asked for, and says which
// position it is of the forecast in force. At the fourth request of a step, and where the step
// turns out to be of another kind, the forecast is a new one. A request that is not large has no
// Ref, and to note its free does nothing.
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
		l.run.frees = append(l.run.frees, notYet)
		l.run.seen.ends = append(l.run.seen.ends, notYet)
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
	if b := &l.live[r]; b.step == l.steps && !l.run.tooLong {
		l.run.frees[b.ordinal] = int32(len(l.run.tokens))
	}
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
	case b.step == l.steps-1 && b.rank != noRank:
		l.run.seen.leaves = append(l.run.seen.leaves, leave{b.rank, now, b.size})
	}
	l.held -= b.size
	*b = block{newer: l.unused}
	l.unused = r
}

// Boundary ends the step.
func (l *Learner) Boundary() {
	if l.off > 0 {
		l.off--
		l.counts.Off++
	}
	l.next()
}

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

// next closes the running step and begins another.
func (l *Learner) next() {
	l.settle()
	if n := len(l.run.begins); n > features && !l.run.tooLong {
		end := int32(len(l.run.tokens))
		for i := range n {
			l.run.frees[i] = min(l.run.frees[i], end)
			l.run.seen.ends[i] = min(l.run.seen.ends[i], end)
		}
		l.learn()
	} else if n > 0 {
		l.last = noKind
	}
	l.run.tokens, l.run.begins, l.run.frees = l.run.tokens[:0], l.run.begins[:0], l.run.frees[:0]
	l.run.seen.reset()
	l.run.tooLong, l.run.onRails = false, 0
	l.alive = l.known()
	l.valley = l.load
	l.rank()
	l.steps++
}
