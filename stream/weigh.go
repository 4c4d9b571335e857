package stream

// doubt begins to weigh where the step is, from an entry where it was thought to be.
func (t *Tape) doubt(at uint32) {
	f := t.follow
	f.lost, f.at, f.hit = true, at, false
	f.put = f.put[:0]
	f.band.start(t, at)
}

// weigh takes an event into account while the follower is lost.
func (t *Tape) weigh(o observed) {
	f := t.follow
	if t.agrees(&o) {
		if f.put = append(f.put, o); len(f.put) == settledRow {
			f.lost = false
		}
		return
	}
	for _, p := range f.put {
		f.band.event(t, p)
	}
	f.put = f.put[:0]
	f.band.event(t, o)
	f.at, f.hit = f.band.lo+uint32(f.band.best), f.band.matched
	if f.band.row >= surelyRow && !f.band.doubt(t) {
		f.lost = false
	}
}

// agrees reports whether an event is the next one where the step is believed to
// be, and goes behind it.
func (t *Tape) agrees(o *observed) bool {
	f := t.follow
	at := f.at
	for t.Entries[at].Size == 0 && t.Entries[at].Slot != None && !f.live.in[t.Entries[at].Slot] && (!o.free || t.Entries[at].Slot != o.slot) {
		at++
	}
	if t.cost(o, &t.Entries[at], f.shape.tokens[at]) > costVaries {
		return false
	}
	f.at, f.hit = at+1, true
	return true
}

func (t *Tape) request(n uint64) observed {
	return observed{size: n, slot: None, insert: t.tuning.Insert, born: t.follow.live.count}
}

// large is the size from which sizes weigh more: such blocks are few and decide
// over the memory.
const large = 1 << 20

// unlike is the cost of a request of n bytes being the one of an entry.
func (t *Tape) unlike(e *Entry, n uint64) int32 {
	slot := &t.slots[e.Slot]
	most, least := uint64(slot.Size), uint64(slot.Size-slot.Spread)
	switch {
	case n == most && n == least:
		return costExact
	case n >= least && n <= most || slot.Pool && e.Place != None:
		return costVaries
	case least == most && t.follow.shape.rigid[e.Slot]:
		return costNever
	case least == most && max(n, most) >= large:
		return costOddLarge
	case least == most:
		return costOdd
	}
	return costUnlike
}

// fits reports whether a request of n bytes may have the slot of an entry. In a
// position that has always had one size, another is taken for a doubtful match.
func (t *Tape) fits(e *Entry, n uint64) bool {
	slot := &t.slots[e.Slot]
	return n == uint64(slot.Size) || slot.Spread != 0 && n < uint64(slot.Size)
}

// seek returns the entry that a request of n rounded bytes is believed to be, or
// None, and leaves the cursor where the step is believed to be.
func (t *Tape) seek(n uint64) uint32 {
	f := t.follow
	t.catchUp()
	s := t.State
	if !f.lost {
		e := &t.Entries[s.Cursor]
		if e.Size != 0 && t.unlike(e, n) <= costVaries && !f.live.in[e.Slot] {
			return s.Cursor
		}
		t.strayed = true
		t.doubt(s.Cursor)
	}
	t.weigh(t.request(n))
	if !f.hit {
		t.moveTo(f.at)
		return None
	}
	s.Resyncs++
	t.moveTo(f.at - 1)
	return f.at - 1
}
