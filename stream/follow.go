package stream

import "stalloc/internal/mem"

// Ticket names the position of the tape that a miss was matched to. The owner of
// the block keeps it and gives it back with Tape.Ended when the block is freed.
// Zero: the request was matched to none.
type Ticket uint64

func (t *Tape) ticket(slot uint32) Ticket { return Ticket(t.follow.turn)<<32 | Ticket(slot) + 1 }

// settledRow is how many events in a row must agree before the follower is sure
// again.
const settledRow = 8

// follower knows where on the tape a step is. As long as step and tape agree it
// does nothing: requests and frees pass in C. What passed there it learns later,
// from how far the cursor has come and from the log of frees.
type follower struct {
	shapes []shape // by order
	shape  *shape  // of the order that is served
	live   lives
	turn   uint32 // counts steps, so that tickets of earlier ones are known
	seen   uint32 // entries before it have been taken in
	lost   bool   // the band weighs where the step is
	band   band

	took uint32 // of State.Freed, taken in
}

func newFollower(l *Layout) *follower {
	f := &follower{turn: 1}
	for _, order := range l.Orders {
		f.shapes = append(f.shapes, shapeOf(order, len(l.slots), func(slot uint32) bool { return l.places[slot] != None }))
	}
	f.live.grow(len(l.slots))
	if len(f.shapes) > 0 {
		f.shape = &f.shapes[0]
	}
	return f
}

// restart is a step boundary.
func (f *follower) restart(t *Tape) {
	f.live.clear()
	f.shape = &f.shapes[t.order]
	f.turn++
	f.seen, f.lost = 0, false
	f.took = t.State.Freed
	clear(t.Live[len(t.offsets)-t.pools:])
}

// note remembers a free for the follower.
func (s *State) note(slot uint32) {
	s.Log[s.Freed%LogLength] = Freeing{slot, s.Cursor}
	s.Freed++
}

// catchUp takes in what passed in the quick case since the last time.
func (t *Tape) catchUp() {
	f := t.follow
	if t.State.Freed-f.took > LogLength {
		t.recover()
	}
	for ; f.took != t.State.Freed; f.took++ {
		free := t.State.Log[f.took%LogLength]
		t.passed(free.Cursor)
		t.freed(free.Slot)
	}
	t.passed(t.State.Cursor)
}

// recover is for a log that overflowed: the quick case has served long without
// a question, so the tape and the step agree.
func (t *Tape) recover() {
	f := t.follow
	f.took = t.State.Freed
	f.lost = false
	f.live.clear()
	var recent []uint32
	for at := t.State.Cursor; at > 0 && len(recent) < 2*maxDepth; at-- {
		e := &t.Entries[at-1]
		if e.Size != 0 && e.Place != None && t.Live[e.Place].Slot == e.Slot+1 {
			recent = append(recent, e.Slot)
		}
	}
	for i := len(recent) - 1; i >= 0; i-- {
		f.live.push(recent[i])
	}
	f.seen = t.State.Cursor
}

// passed takes in the requests that the quick case served up to an entry.
func (t *Tape) passed(to uint32) {
	f := t.follow
	for f.seen < to {
		e := &t.Entries[f.seen]
		f.seen++
		if e.Size == 0 || e.Place == None {
			continue
		}
		if f.lost {
			t.weighAlloc(e.Size)
		}
		f.live.push(e.Slot)
	}
}

// freed takes in the free of a position's block.
func (t *Tape) freed(slot uint32) {
	f := t.follow
	if !f.live.in[slot] {
		return
	}
	depth := f.live.depth(slot)
	f.live.drop(slot)
	at := f.shape.free[slot]
	if !f.lost {
		if at == None || at < f.seen || nextAlloc(t.Entries, f.seen) > at {
			return
		}
		f.lost = true // freed although the tape has requests before
		f.band.start(t, f.seen)
	}
	token := tokenFree(depth)
	f.band.event(t, costInsertF, func(e *Entry, want uint8) int32 {
		switch {
		case e.Size != 0 || e.Slot == None:
			return costNever
		case e.Slot == slot && want == token:
			return costExact
		case e.Slot == slot:
			return costOther
		case want == token:
			return costDepth
		}
		return costNever
	})
	t.settle2()
}

func (t *Tape) weighAlloc(n uint64) {
	f := t.follow
	f.band.event(t, costInsert, func(e *Entry, _ uint8) int32 {
		if e.Size == 0 || f.live.in[e.Slot] {
			return costNever
		}
		return t.unlike(e, n)
	})
	t.settle2()
}

// unlike is the cost of a request of n bytes being the one of an entry.
func (t *Tape) unlike(e *Entry, n uint64) int32 {
	slot := &t.slots[e.Slot]
	most, least := uint64(slot.Size), uint64(slot.Size-slot.Spread)
	switch {
	case n >= least && n <= most:
		if least == most {
			return costExact
		}
		return costVaries
	case least == most:
		return costNever
	case n <= 2*most && 2*n >= least:
		return costVaries
	}
	return costUnlike
}

// settle2 ends the weighing when one place has won.
func (t *Tape) settle2() {
	f := t.follow
	if b := &f.band; b.row >= settledRow && !b.doubt(t) {
		f.lost = false
		f.seen = b.lo + uint32(b.best)
	}
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
		f.lost = true
		f.band.start(t, s.Cursor)
	}
	t.weighAlloc(n)
	at := f.band.lo + uint32(f.band.best)
	if !f.band.matched {
		t.moveTo(at)
		return None
	}
	s.Resyncs++
	t.moveTo(at - 1)
	return at - 1
}

// moveTo sets the cursor. Going forward, the frees it passes are owed; going
// back, the slots whose allocation is ahead again are.
func (t *Tape) moveTo(at uint32) {
	s := t.State
	if at >= s.Cursor {
		t.jump(at)
	} else {
		for i := at; i < s.Cursor; i++ {
			if e := &t.Entries[i]; e.Size != 0 && e.Offset&EntryPool == 0 && t.Live[e.Place].Slot == e.Slot+1 {
				t.owe(e.Place)
			}
		}
		s.Cursor = at
	}
	t.follow.seen = s.Cursor
}

// serveAt serves a request of n rounded bytes as the one of an entry.
func (t *Tape) serveAt(at uint32, n, asked uint64) Served {
	f, s := t.follow, t.State
	e := &t.Entries[at]
	if e.Place == None { // the pool's, and its end is not on the tape
		s.Cursor = at + 1
		t.passOver()
		return Served{Slot: None, Pool: true}
	}
	f.live.push(e.Slot)
	if e.Offset&EntryPool == 0 && n <= uint64(t.slots[e.Slot].Size) && s.Off == 0 && t.Live[e.Place].Slot == 0 && t.clear(e) {
		got := t.take(at, asked)
		f.seen = s.Cursor
		return got
	}
	out := Served{Slot: None, Pool: e.Offset&EntryPool != 0, Ticket: t.ticket(e.Slot), Now: at, Ends: f.shape.free[e.Slot]}
	if out.Pool {
		t.Live[e.Place] = Live{Slot: e.Slot + 1}
	}
	s.Cursor = at + 1
	t.passOver()
	return out
}

func (t *Tape) passOver() {
	t.State.Misses++
	t.skipFreed()
	t.follow.seen = t.State.Cursor
}

// Ended says that the block of a miss was freed.
func (t *Tape) Ended(ticket Ticket) {
	f := t.follow
	if ticket == 0 || uint32(ticket>>32) != f.turn {
		return
	}
	slot := uint32(ticket) - 1
	t.catchUp()
	t.freed(slot)
	if place := t.places[slot]; t.slots[slot].Pool && place != None {
		t.Live[place] = Live{}
	}
	if f.lost {
		t.moveTo(f.band.lo + uint32(f.band.best))
	}
	t.skipFreed()
	if !f.lost {
		f.seen = t.State.Cursor
	}
}

var _ mem.Bytes
