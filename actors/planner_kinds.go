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
}

// kinds are the recent kinds of step, few enough to plan them all together.
type kinds []*kind

const (
	mostKinds = 4
	// remember is for how many steps a kind is worth a place in the arena, and a
	// peak of the load is held against nobody: an allocator that caches has
	// reserved it anyway.
	remember = 64
)

// note takes in a step. A step that as good as repeats the kind it was served as
// is one more of that kind.
func (k *kinds) note(steps []*plan.Step, now int, servedAs *kind) *kind {
	signature := plan.Signature(steps)
	at := slices.IndexFunc(*k, func(old *kind) bool { return old.signature == signature })
	if at >= 0 {
		old := (*k)[at]
		old.steps, old.last = steps, now
		old.seen++
		return old
	}
	if servedAs != nil {
		servedAs.last = now
		servedAs.seen++
		return servedAs
	}
	if len(*k) == mostKinds {
		oldest := slices.MinFunc(*k, func(a, b *kind) int { return a.last - b.last })
		*k = slices.DeleteFunc(*k, func(old *kind) bool { return old == oldest })
	}
	fresh := &kind{signature: signature, steps: steps, seen: 1, last: now}
	*k = append(*k, fresh)
	return fresh
}

// worth returns the kinds that the next plan shall serve: the newest, and those
// that have come again lately, the most frequent first, which is the one that is
// expected as long as nothing is known.
func (k kinds) worth(now int) (chosen []*kind) {
	for _, old := range k {
		if old.last == now || old.seen > 1 && now-old.last <= remember {
			chosen = append(chosen, old)
		}
	}
	slices.SortStableFunc(chosen, func(a, b *kind) int { return b.seen - a.seen })
	return chosen
}

// same reports whether two sets of kinds are made of the same steps.
func same(a, b []*kind) bool {
	has := func(set []*kind, k *kind) bool {
		return slices.ContainsFunc(set, func(o *kind) bool { return o.signature == k.signature })
	}
	return len(a) == len(b) && !slices.ContainsFunc(a, func(k *kind) bool { return !has(b, k) })
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
