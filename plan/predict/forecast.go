package predict

import (
	"slices"

	"stalloc/internal/mem"
)

// Position is what is foreseen of one large request.
type Position struct {
	// Size is rounded, zero where it is not known.
	Size mem.Bytes
	// Bound says that the request may be smaller, by less than a 32nd.
	Bound bool
	// Begin and End are the places in the step of the request and of the end of its
	// life; a block that outlives the step ends with it.
	Begin, End mem.Tick
}

// Slack is how much of a bound, one part in so many, need not be asked for. Who serves from
// a forecast may allow it everywhere.
const Slack = 32

// fits says whether a request of so many rounded bytes is what was foreseen.
func (p Position) fits(size mem.Bytes) bool {
	slack := mem.Grain // sizes are derived to 16 bytes
	if p.Bound {
		slack = max(slack, p.Size/Slack)
	}
	return size <= p.Size && size >= p.Size-slack
}

// Forecast is what the running step is expected to do.
type Forecast struct {
	Number    uint32     // by which a Match refers to it; never zero
	From      mem.Tick   // place of the request that it was made at
	Peak      mem.Bytes  // largest load of large blocks from there on; more than it no plan should need
	Positions []Position // by request of the step, from its first
}

// Forecast copies the forecast in force into f, whose memory it uses, and reports
// whether there is one that is trusted.
func (l *Learner) Forecast(f *Forecast) bool {
	if l.follower.kind == noKind || l.trust < leastTrust {
		return false
	}
	f.Number, f.From, f.Peak = l.number, l.from, l.foreseen
	f.Positions = append(f.Positions[:0], l.positions...)
	return true
}

// Never is the end of a life that is not foreseen.
const Never = mem.Tick(maxEvents + 1)

// End returns the place in the running step at which the memory of a live block will
// be free again, or Never. It knows of the blocks of this step and of the one before.
func (l *Learner) End(r Ref) mem.Tick {
	if l.follower.kind == noKind || r < 0 || int(r) >= len(l.live) {
		return Never
	}
	b := &l.live[r]
	end := Never
	switch {
	case b.state == unusedBlock:
	case b.step == l.steps && int(b.ordinal) < len(l.positions):
		end = l.positions[b.ordinal].End
	case b.step == l.steps-1 && b.rank != noRank:
		if i, ok := slices.BinarySearchFunc(l.leaves, b.rank, byRank); ok {
			end = mem.Tick(l.leaves[i].at)
		}
	}
	if end <= l.Now() {
		return Never
	}
	return end
}

// forecast makes a forecast for the running step, from the likeliest kind that it is a
// beginning of and whose sizes are known.
func (l *Learner) forecast() {
	f := &l.follower
	f.kind, f.tried = noKind, l.alive
	if f.off > 0 {
		return
	}
	for rest := l.alive; rest != 0; {
		k := l.likeliest(rest)
		if k == noKind {
			return
		}
		rest &^= 1 << k
		if l.derive(&l.kinds[k]) {
			f.kind, f.trust, f.served, f.from = k, 1, 1, l.Now()-1
			f.number++
			f.counts.Forecasts++
			return
		}
	}
}

// likeliest returns that one of the kinds whose steps began with such sizes: with just these
// before one that usually comes next, and that before the latest.
func (l *Learner) likeliest(rest kindSet) int {
	best, bestScore := noKind, int64(-1)
	for rest != 0 {
		var k int
		k, rest = rest.first()
		kd := &l.kinds[k]
		score := kd.used
		if l.last != noKind && l.kinds[l.last].next == k {
			score += 1 << 60
		}
		switch kd.resembles(l.run.seen.features) {
		case sameFeatures:
			score += 1 << 61
		case otherFeatures:
			continue
		}
		if score > bestScore {
			best, bestScore = k, score
		}
	}
	return best
}

type resemblance int

const (
	otherFeatures resemblance = iota
	likeFeatures
	sameFeatures
)

// resembles says whether steps of the kind began with these sizes, or some like them.
func (kd *kind) resembles(f [features]mem.Bytes) resemblance {
	for i := range min(kd.count, history) {
		if kd.seen[i].features == f {
			return sameFeatures
		}
	}
	for i, size := range f {
		least, most := kd.seen[0].features[i], mem.Bytes(0)
		for j := range min(kd.count, history) {
			least, most = min(least, kd.seen[j].features[i]), max(most, kd.seen[j].features[i])
		}
		if !within(size, least, most) {
			return otherFeatures
		}
	}
	return likeFeatures
}

// latest returns the observation before which ago others were made.
func (kd *kind) latest(ago int) *observation { return &kd.seen[(kd.count-1-ago)%history] }

// within says whether a size is no further than a factor of two from those seen.
func within(size, least, most mem.Bytes) bool { return 2*size >= least && size <= 2*most }

// derive sets the positions and reports whether they are worth planning.
func (l *Learner) derive(kd *kind) bool {
	f := &l.follower
	f.positions = f.positions[:0]
	f.models.prepare(kd, l.run.seen.features)
	n := min(kd.count, history)
	last := kd.latest(0)
	length := mem.Tick(len(kd.tokens))
	var known, all mem.Bytes
	for i := range last.sizes {
		p := f.models.size(i)
		p.Begin = mem.Tick(kd.begins[i])
		for j := range n {
			p.End = max(p.End, mem.Tick(kd.seen[j].ends[i]))
		}
		if late := p.End - mem.Tick(kd.frees[i]); late > 0 {
			p.End = min(p.End+late/lateMargin, length)
		}
		f.positions = append(f.positions, p)
		all += last.sizes[i]
		if p.Size > 0 {
			known += last.sizes[i]
		}
	}
	f.leaves = kd.foreseenLeaves(f.leaves[:0])
	f.foreseen = l.foreseenPeak(kd)
	return float64(known) >= leastShare*float64(all) && f.foreseen <= l.peak+l.peak/growth
}

// lateMargin is the part of a block's wait for other streams, one in so many, that is allowed
// for beside the longest seen.
const lateMargin = 8

// growth is the part of the largest load so far, one in so many, by which a forecast
// may exceed it. The first step makes the optimizer's state; who took it for the second, or
// trusted a line through few points too far, would plan for memory that nobody needs.
const growth = 20

// foreseenPeak returns the largest load of the rest of the step if the forecast comes true.
// Where it has no size, that of the last step counts.
func (l *Learner) foreseenPeak(kd *kind) mem.Bytes {
	f := &l.follower
	f.change = slices.Grow(f.change[:0], len(kd.tokens)+1)[:len(kd.tokens)+1]
	clear(f.change)
	now, last := l.Now()-1, kd.latest(0)
	for i, p := range f.positions {
		switch {
		case p.Begin >= now:
			size := p.Size
			if size == 0 {
				size = mem.Round(last.sizes[i])
			}
			f.change[p.Begin] += size
			f.change[p.End] -= size
		case p.End > now:
			f.change[p.End] -= mem.Round(l.run.seen.sizes[i])
		}
	}
	for _, v := range f.leaves {
		if mem.Tick(v.at) > now {
			f.change[v.at] -= v.size
		}
	}
	load := l.held
	peak := load
	for _, c := range f.change[now:] {
		load += c
		peak = max(peak, load)
	}
	return peak
}

// foreseenLeaves appends the ends of what a step of the kind inherits, if the last two
// agree on which blocks these are.
func (kd *kind) foreseenLeaves(dst []leave) []leave {
	if kd.count < 2 {
		return dst
	}
	a, b := kd.latest(0).leaves, kd.latest(1).leaves
	if len(a) != len(b) {
		return dst
	}
	for i := range a {
		if a[i].rank != b[i].rank {
			return dst[:0]
		}
		dst = append(dst, leave{a[i].rank, max(a[i].at, b[i].at), a[i].size})
	}
	slices.SortFunc(dst, func(a, b leave) int { return byRank(a, b.rank) })
	return dst
}

func byRank(v leave, rank int32) int { return int(v.rank - rank) }
