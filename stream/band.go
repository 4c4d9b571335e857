package stream

// When a step and the tape disagree, the follower weighs all places where the
// step may be now: an alignment of the events seen since with the entries around
// the cursor, kept as one row of the table of edit distances with affine gaps
// (Gotoh, J. Mol. Biol. 1982), because requests are left out and inserted in
// runs: an expert without tokens leaves out its whole part. Each event makes the
// next row. The follower moves to the cheapest place, and stops weighing when
// one place has clearly won.

// What the steps of an alignment cost. Only their proportions matter.
const (
	costExact     = 0  // a request of the size the tape expects, or its free
	costVaries    = 2  // a request at a position that varies, a size like those seen
	costUnlike    = 2  // the same, a size unlike those seen
	costOdd       = 8  // the same, where only one size has been seen
	costOddLarge  = 40 // the same, a large one
	costDepth     = 8  // a free of another block than expected, of the same depth
	costOther     = 3  // a free of the block expected, of another depth
	costInsertN   = 6  // the free of a block without a position
	costInsertF   = 40 // a free that the tape does not have here
	costSkip      = 1  // and for each
	costSkipRigid = 4  // the same, a request in a regular part of the step
	costLate      = 10 // a free that has not come yet
	costBack      = 50 // having been too far ahead: once
	costBackEach  = 2  // and for each entry
	costCut       = 600
	costNever     = 1 << 20
	costAmbiguous = 30 // a rival place within that of the best is a doubt
)

// Tuning chooses between variants of matching. Which is best differs from program
// to program; a replay of the last step ranks them as the next step will.
type Tuning struct {
	Insert int32 // cost of a request that the tape does not have
	More   int32 // and of each event behind it that the tape does not have either
	Gap    int32 // cost of entries left out, once
	Again  int32 // cost of a second block at a position whose block is live
	// NoGuests leaves every miss to the pool.
	NoGuests bool
}

// Tunings are the variants worth trying, the one that is usually best first.
var Tunings = [...]Tuning{
	{Insert: 56, More: 12, Gap: 56, Again: 4},
	{Insert: 56, More: 8, Gap: 56, Again: 10},
	{Insert: 40, More: 12, Gap: 70, Again: 2},
	{Insert: 56, More: 12, Gap: 56, Again: 4, NoGuests: true},
}

const (
	bandWidth = 2048
	bandBack  = 600 // entries behind the cursor that are weighed
)

// band is the row. cell i stands for the cursor being at entry lo + i.
type band struct {
	lo       uint32
	from, to int              // cells that may be below costCut
	free     [bandWidth]int32 // cost with the last entry matched or none left out
	gap      [bandWidth]int32 // cost with the last entry left out
	extra    [bandWidth]int32 // cost with the last event inserted
	best     int
	matched  bool // the last event of the best alignment is the entry before it
	row      int  // events in a row that were matched at no more than costVaries
}

// start begins with the cursor known to be at an entry, give or take.
func (b *band) start(t *Tape, cursor uint32) {
	b.lo = cursor - min(cursor, bandBack)
	n := int(cursor - b.lo)
	for i := range b.free {
		b.free[i], b.gap[i], b.extra[i] = costNever, costNever, costNever
	}
	for i := 0; i < n; i++ {
		b.free[i] = int32(costBack + costBackEach*(n-i))
	}
	b.free[n], b.from, b.best, b.row = 0, 0, n, 0
	b.to = n
	b.extend(t)
}

// extend fills in the gaps behind the cells of a new row.
func (b *band) extend(t *Tape) {
	limit := b.total(b.best) + costCut
	for i := b.from + 1; i < bandWidth && int(b.lo)+i < len(t.Entries); i++ {
		skip := int32(costSkip)
		if e := &t.Entries[int(b.lo)+i-1]; e.Size == 0 && !t.follow.live.in[e.Slot] {
			skip = 0 // the free of a block that is gone or was never there
			b.free[i] = min(b.free[i], b.free[i-1])
			b.extra[i] = min(b.extra[i], b.extra[i-1])
		} else if e.Size == 0 {
			b.free[i] = min(b.free[i], b.free[i-1]+costLate)
		} else if t.follow.shape.rigid[e.Slot] {
			skip = costSkipRigid
		}
		b.gap[i] = min(min(b.free[i-1], b.extra[i-1])+t.tuning.Gap, b.gap[i-1]) + skip
		if b.total(i) > limit && i > b.to {
			return
		}
		b.to = max(b.to, i)
	}
}

func (b *band) total(i int) int32 { return min(b.free[i], b.gap[i], b.extra[i]) }

// observed is an event of the step.
type observed struct {
	free   bool
	size   uint64 // of a request, rounded
	slot   uint32 // of the position whose block is freed, None
	token  uint8  // of a free
	insert int32  // cost of the event having no entry
	born   uint32 // of a request: blocks allocated before it
}

// cost returns that of an event being the one of an entry.
func (t *Tape) cost(o *observed, e *Entry, token uint8) int32 {
	switch {
	case o.free != (e.Size == 0) || e.Slot == None:
		return costNever
	case !o.free && e.Place != None && t.follow.live.in[e.Slot] && t.follow.live.born[e.Slot] <= o.born:
		return t.unlike(e, o.size) + t.tuning.Again
	case !o.free:
		return t.unlike(e, o.size)
	case e.Slot == o.slot && token == o.token:
		return costExact
	case e.Slot == o.slot:
		return costOther
	case token == o.token:
		return costDepth
	}
	return costNever
}

// event makes the next row.
func (b *band) event(t *Tape, o observed) {
	tokens := t.follow.shape.tokens
	end := min(b.to+1, bandWidth-1, len(t.Entries)-1-int(b.lo))
	before := int32(costNever) // total of the cell before, in the old row
	best, bestCost, matched, exact := b.from, int32(costNever), false, false
	for i := b.from; i <= end; i++ {
		here := b.total(i)
		if i > b.to {
			here = costNever
		}
		extra := here + o.insert
		if i <= b.to {
			extra = min(extra, b.extra[i]+t.tuning.More)
		}
		cost, hit, sharp := int32(costNever), false, false
		if i > 0 && before < costNever {
			at := int(b.lo) + i - 1
			if m := t.cost(&o, &t.Entries[at], tokens[at]); before+m < costNever {
				cost, hit, sharp = before+m, true, m <= costVaries
			}
		}
		b.free[i], b.gap[i], b.extra[i] = min(cost, costNever), costNever, min(extra, costNever)
		if extra < cost {
			cost, hit, sharp = extra, false, false
		}
		if cost < bestCost {
			best, bestCost, matched, exact = i, cost, hit, sharp
		}
		before = here
	}
	b.to = max(end, b.to)
	b.best, b.matched = best, matched
	if exact {
		b.row++
	} else {
		b.row = 0
	}
	for b.from < b.best && b.total(b.from) > bestCost+costCut {
		b.free[b.from], b.gap[b.from], b.extra[b.from] = costNever, costNever, costNever
		b.from++
	}
	for b.to > b.best && b.total(b.to) > bestCost+costCut {
		b.free[b.to], b.gap[b.to], b.extra[b.to] = costNever, costNever, costNever
		b.to--
	}
	b.extend(t)
	b.recentre()
}

// recentre moves the row when its cells come near the end of the array.
func (b *band) recentre() {
	shift := b.from
	if b.to < bandWidth*3/4 || shift == 0 {
		return
	}
	copy(b.free[:], b.free[shift:])
	copy(b.gap[:], b.gap[shift:])
	copy(b.extra[:], b.extra[shift:])
	for i := bandWidth - shift; i < bandWidth; i++ {
		b.free[i], b.gap[i], b.extra[i] = costNever, costNever, costNever
	}
	b.lo += uint32(shift)
	b.from, b.to, b.best = 0, b.to-shift, b.best-shift
}

// doubt reports whether another place is nearly as likely as the best.
func (b *band) doubt(t *Tape) bool {
	limit := b.total(b.best) + costAmbiguous
	run := true // only frees that are nothing to wait for lie between
	for i := b.best + 1; i <= b.to; i++ {
		if e := &t.Entries[int(b.lo)+i-1]; e.Size != 0 || t.follow.live.in[e.Slot] {
			run = false
		}
		if !run && b.total(i) < limit {
			return true
		}
	}
	for i := b.from; i < b.best; i++ {
		if b.total(i) < limit {
			return true
		}
	}
	return false
}
