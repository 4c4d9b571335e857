package predict

import "stalloc/internal/mem"

const (
	// trustGain is how much one request counts for the trust in a forecast.
	trustGain = 1.0 / 32
	// leastTrust is the share of right sizes below which a forecast is given up.
	leastTrust = 0.9
	// servedGain is how much one match counts for the share of them that find their bytes
	// free, and leastServed the share below which the plan is given up: where most
	// blocks are freed later than ever before, whatever is planned only stands in the way.
	servedGain, leastServed = 1.0 / 128, 0.25
	// mostBad is how many steps in a row may be forecast badly. Then one is not forecast, and
	// behind each other bad one twice as many, offSteps at most: the first forecasts know few
	// lengths, and those that come soon after may know enough.
	mostBad, offSteps = 3, 16
	// leastShare is the part of a step's bytes that a forecast must know. Where sizes
	// follow the routing of experts it is 10 to 30 %, and a plan for them is no help.
	leastShare = 0.5
)

// follower holds the running step against its forecast.
type follower struct {
	kind      int     // of the forecast, or noKind
	tried     kindSet // the kinds that the forecast, or none, was chosen from
	number    uint32
	from      mem.Tick
	positions []Position
	leaves    []leave
	change    []mem.Bytes // by place in the step, of the foreseen load
	foreseen  mem.Bytes   // its peak
	models    models
	trust     float64
	served    float64 // share of the matches that found their bytes free
	bad       int     // steps in a row that were forecast badly
	off       int     // steps that will not be forecast
	counts    Counts
}

// Counts says how steps were forecast.
type Counts struct {
	Steps, Kinds   int // closed; kinds met
	Forecasts, Bad int // forecasts made; steps whose forecast was given up
	Off            int // steps that were not forecast because others were bad
}

// Counts returns what was counted so far.
func (l *Learner) Counts() Counts { return l.counts }

// Watches reports whether the next large request is to be known when it comes, because a
// forecast may be made of it. What comes at other times may be told later.
func (l *Learner) Watches() bool {
	if l.follower.off > 0 {
		return false
	}
	return len(l.run.begins) <= features || l.turned()
}

// Unsettled reports whether the step may yet turn out to be of another kind.
func (l *Learner) Unsettled() bool {
	return l.follower.off == 0 && l.alive&(l.alive-1) != 0
}

// turned reports whether the step has turned out to be of other kinds than the forecast's.
func (l *Learner) turned() bool {
	f := &l.follower
	return l.alive != 0 && !l.alive.has(f.kind) && l.alive != f.tried
}

// Follows reports whether the forecast of this number is in force.
func (l *Learner) Follows(number uint32) bool {
	f := &l.follower
	return number == f.number && f.kind != noKind && f.trust >= leastTrust
}

// Ordinal returns how many requests of the running step there were.
func (l *Learner) Ordinal() int { return len(l.run.begins) }

// follow says which position a request is.
func (l *Learner) follow(ordinal int32, size mem.Bytes) Match {
	f := &l.follower
	if ordinal == features || ordinal > features && l.turned() {
		l.forecast()
	}
	if f.kind == noKind || ordinal < 0 || int(ordinal) >= len(f.positions) || f.trust < leastTrust {
		return Match{}
	}
	p := f.positions[ordinal]
	if p.Size == 0 {
		return Match{}
	}
	f.trust -= f.trust * trustGain
	if !p.fits(mem.Round(size)) {
		return Match{}
	}
	f.trust += trustGain
	if f.trust < leastTrust {
		return Match{}
	}
	f.served += (1 - f.served) * servedGain
	return Match{f.number, ordinal}
}

// Taken notes that the bytes planned for the last match were in use: a block was freed later
// than foreseen, or what came instead of another such match lies there.
func (l *Learner) Taken() {
	f := &l.follower
	f.served -= servedGain
	if f.served < leastServed {
		f.trust = 0
	}
}

// settle closes the account of the running step's forecast.
func (l *Learner) settle() {
	f := &l.follower
	if len(l.run.begins) <= features {
		f.kind = noKind
		return
	}
	f.counts.Steps++
	switch {
	case f.kind == noKind:
	case f.trust >= leastTrust:
		f.bad = 0
	default:
		f.counts.Bad++
		if f.bad++; f.bad >= mostBad {
			f.off = min(1<<min(f.bad-mostBad, 8), offSteps)
		}
	}
	f.kind = noKind
}
