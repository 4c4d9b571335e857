package predict

import (
	"math/bits"

	"stalloc/internal/mem"
)

// history is how many steps of a kind its sizes are derived from.
const history = 8

// stale is how many steps a kind may be away before it counts for no more than one
// that was seen once.
const stale = 64

const noKind = -1

// kind is a tape that steps had, and what they asked for.
type kind struct {
	tokens []uint8
	begins []int32 // by request: its place in tokens
	frees  []int32 // by request: the place behind its free, or the end
	count  int     // steps seen; the latest is seen[(count-1)%history]
	used   int64   // the latest of them
	next   int     // kind of the step that mostly comes behind it
	votes  int     // for next, less those against it
	seen   [history]observation
}

// observation is what one step of a kind did.
type observation struct {
	features [features]mem.Bytes
	sizes    []mem.Bytes // by request, as asked for
	ends     []int32     // by request: the place in the tape at which its memory was free again, or the end
	leaves   []leave     // what it inherited and ended, in the order of the ends
}

// leave is the end of a block that the step inherited.
type leave struct {
	rank int32
	at   int32
	size mem.Bytes
}

func (o *observation) reset() {
	o.features = [features]mem.Bytes{}
	o.sizes, o.ends, o.leaves = o.sizes[:0], o.ends[:0], o.leaves[:0]
}

// kindSet is a set of kinds.
type kindSet uint8

func (s kindSet) has(k int) bool { return k >= 0 && s>>k&1 != 0 }

// each visits the kinds of the set.
func (s kindSet) first() (k int, rest kindSet) {
	k = bits.TrailingZeros8(uint8(s))
	return k, s &^ (1 << k)
}

func (l *Learner) known() (s kindSet) {
	for k := range l.kinds {
		if l.kinds[k].count > 0 {
			s |= 1 << k
		}
	}
	return s
}

// agree returns those kinds of the set whose tape has the token there.
func (l *Learner) agree(set kindSet, at int, token uint8) kindSet {
	for rest := set; rest != 0; {
		var k int
		k, rest = rest.first()
		if tokens := l.kinds[k].tokens; at >= len(tokens) || tokens[at] != token {
			set &^= 1 << k
		}
	}
	return set
}

// learn files the running step under its kind, which may be a new one. Buffers are
// exchanged, not copied.
func (l *Learner) learn() {
	k := l.kindOfRun()
	kd := &l.kinds[k]
	slot := &kd.seen[kd.count%history]
	*slot, l.run.seen = l.run.seen, *slot
	kd.count++
	kd.used = l.steps
	if l.last != noKind {
		l.kinds[l.last].precedes(k)
	}
	l.last = k
}

// mostVotes bounds how long it takes until another kind is expected next.
const mostVotes = 4

// precedes counts that a step of kind k came behind one of this kind.
func (kd *kind) precedes(k int) {
	switch {
	case kd.next == k:
		kd.votes = min(kd.votes+1, mostVotes)
	case kd.votes > 0:
		kd.votes--
	default:
		kd.next, kd.votes = k, 1
	}
}

func (l *Learner) kindOfRun() int {
	for rest := l.alive; rest != 0; {
		var k int
		if k, rest = rest.first(); len(l.kinds[k].tokens) == len(l.run.tokens) {
			return k
		}
	}
	k := l.leastWorth()
	if l.last == k {
		l.last = noKind
	}
	kd := &l.kinds[k]
	kd.tokens, l.run.tokens = l.run.tokens, kd.tokens
	kd.begins, l.run.begins = l.run.begins, kd.begins
	kd.frees, l.run.frees = l.run.frees, kd.frees
	kd.count, kd.next, kd.votes = 0, noKind, 0
	l.follower.counts.Kinds++
	return k
}

// leastWorth returns the kind to be forgotten: one seen once before one that came
// again, so that noise, which makes every step a kind of its own, does not push out the
// kind that the steps would be without it.
func (l *Learner) leastWorth() int {
	worst := 0
	worth := func(k int) (bool, int64) {
		kd := &l.kinds[k]
		return kd.count > 1 && l.steps-kd.used < stale, kd.used
	}
	for k := range l.kinds {
		if l.kinds[k].count == 0 {
			return k
		}
		again, used := worth(k)
		worstAgain, worstUsed := worth(worst)
		if again != worstAgain && worstAgain || again == worstAgain && used < worstUsed {
			worst = k
		}
	}
	return worst
}
