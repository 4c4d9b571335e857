package actors

import (
	"slices"

	"stalloc/internal/mem"
	"stalloc/plan"
)

// kind is a kind of step: one that came again, or may.
type kind struct {
	signature uint64
	steps     []*plan.Step // the latest of its kind
	seen      int          // how often it came
	last      int          // when: a segment
	repeated  int          // how often in a row it was the very same
	// If it came again in structure only: what else is known of it, the step of the
	// largest load and the newest of the others, the older first.
	earlier [][]*plan.Step
}

const (
	// mostEarlier steps beside the latest are enough to learn what varies.
	mostEarlier = 2
	// settled is how often in a row a kind that varied must repeat before it is one
	// of those that never do.
	settled = 3
)

// varies reports whether the next step of the kind is expected to have the structure
// of the latest and other sizes.
func (k *kind) varies() bool { return k.earlier != nil && k.repeated == 0 }

// like reports whether a step that is not the same may still be one of this kind.
func (k *kind) like(steps []*plan.Step) bool {
	return k.last > 1 && (k.earlier != nil || k.seen == 1) && plan.Alike(k.steps, steps)
}

// again takes in a step of the same kind.
func (k *kind) again(steps []*plan.Step, signature uint64, now int) {
	if k.signature == signature {
		if k.repeated++; k.repeated == settled {
			k.earlier = nil
		}
	} else {
		k.repeated = 0
		if k.earlier = append(k.earlier, k.steps); len(k.earlier) > mostEarlier {
			drop := 0
			if peaks(k.earlier[0]) > peaks(k.earlier[1]) && peaks(k.earlier[0]) > peaks(steps) {
				drop = 1
			}
			k.earlier = slices.Delete(k.earlier, drop, drop+1)
		}
	}
	k.steps, k.signature, k.last = steps, signature, now
	k.seen++
}

// peaks adds up the streams' peak loads.
func peaks(steps []*plan.Step) (sum mem.Bytes) {
	for _, s := range steps {
		if s != nil {
			peak, _ := s.Peaks()
			sum += peak
		}
	}
	return sum
}

// kinds are the recent kinds of step, few enough to plan them all together.
type kinds struct {
	list []*kind
	// Signatures of the last steps, a ring: where many kinds take turns (images of
	// several sizes) each is first taken for a kind that varies, until it comes again.
	past [remember]uint64
	at   int
}

const (
	mostKinds = 8
	// remember is for how many steps a kind is worth a place in the arena, and a
	// peak of the load is held against nobody: an allocator that caches has
	// reserved it anyway.
	remember = 64
)

// note takes in a step. A step that as good as repeats the kind it was served as
// is one more of that kind. So is one that has the structure of a kind of which no
// two steps were the same so far; the first segment, set-up included, is no such
// kind.
func (k *kinds) note(steps []*plan.Step, now int, servedAs *kind) *kind {
	signature := plan.Signature(steps)
	before := slices.Contains(k.past[:], signature)
	k.past[k.at%remember] = signature
	k.at++
	at := slices.IndexFunc(k.list, func(old *kind) bool { return old.signature == signature })
	if at >= 0 {
		k.list[at].again(steps, signature, now)
		return k.list[at]
	}
	if servedAs != nil {
		servedAs.last = now
		servedAs.seen++
		return servedAs
	}
	if before {
		return k.add(&kind{signature: signature, steps: steps, seen: 2, last: now})
	}
	for _, old := range k.list {
		if old.like(steps) {
			old.again(steps, signature, now)
			return old
		}
	}
	return k.add(&kind{signature: signature, steps: steps, seen: 1, last: now})
}

// add makes room for a kind and adds it.
func (k *kinds) add(fresh *kind) *kind {
	if len(k.list) == mostKinds {
		oldest := slices.MinFunc(k.list, func(a, b *kind) int { return a.last - b.last })
		k.list = slices.DeleteFunc(k.list, func(old *kind) bool { return old == oldest })
	}
	k.list = append(k.list, fresh)
	return fresh
}

// worth returns the kinds that the next plan shall serve: the newest, and those
// that have come again lately, the most frequent first, which is the one that is
// expected as long as nothing is known.
func (k *kinds) worth(now int) (chosen []*kind) {
	for _, old := range k.list {
		if old.last == now || old.seen > 1 && now-old.last <= remember {
			chosen = append(chosen, old)
		}
	}
	slices.SortStableFunc(chosen, func(a, b *kind) int { return b.seen - a.seen })
	return chosen
}

// version changes whenever a plan of the kind would.
func (k *kind) version() uint64 {
	if k.varies() {
		return ^k.signature
	}
	return k.signature
}

func versions(set []*kind) (out []uint64) {
	for _, k := range set {
		out = append(out, k.version())
	}
	slices.Sort(out)
	return out
}

// runOf is what a plan of some kinds is made from.
func runOf(set []*kind) (run plan.Run) {
	for _, k := range set {
		run.Steady = append(run.Steady, k.steps)
		var earlier [][]*plan.Step
		if k.varies() {
			earlier = slices.Clone(k.earlier)
		}
		run.Earlier = append(run.Earlier, earlier)
	}
	return run
}

// room is the largest load of the last steps.
type room struct {
	peaks [remember]mem.Bytes
	at    int
}

func (r *room) note(peak mem.Bytes) {
	r.peaks[r.at%remember] = peak
	r.at++
}

func (r *room) most() mem.Bytes { return slices.Max(r.peaks[:]) }

// floor adds up the streams' lowest loads.
func floor(steps []*plan.Step) (sum mem.Bytes) {
	for _, s := range steps {
		if s != nil {
			sum += s.Floor()
		}
	}
	return sum
}
