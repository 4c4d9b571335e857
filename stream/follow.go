package stream

import "stalloc/internal/mem"

// Ticket names a block that lies outside the arena. Its owner keeps the ticket
// and gives it back with Tape.Ended when the block is freed, so that the tape sees
// every event of the step. Zero: the tape need not know.
type Ticket uint64

func (t *Tape) ticket(node uint32) Ticket {
	return Ticket(t.follow.live.born[node])<<32 | Ticket(node) + 1
}

// While the follower is lost, events that agree with the place it believes in are
// only put by, and weighed if one comes that does not. After settledRow of them in
// a row, or surelyRow if no other place is nearly as likely, it is sure again.
const (
	settledRow = 16
	surelyRow  = 8
)

// follower knows where on the tape a step is. As long as step and tape agree it
// does nothing: requests and frees pass in C. What passed there it learns later,
// from how far the cursor has come and from the log of frees.
type follower struct {
	shapes []shape // by order
	shape  *shape  // of the order that is served
	live   lives
	seen   uint32 // entries before it have been taken in
	lost   bool   // the band weighs where the step is
	band   band
	at     uint32 // while lost: the entry where the step is believed to be
	hit    bool   // while lost: the last event is the entry before at
	put    []observed

	took uint32 // of State.Freed, taken in
}

func newFollower(l *Layout) *follower {
	f := &follower{shapes: l.shapes}
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
	f.seen, f.lost = 0, false
	f.took = t.State.Freed
	t.unmarkAll()
	t.remark(0)
	clear(t.Live[t.pools[0]:t.pools[1]])
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
			t.weigh(t.request(uint64(t.slots[e.Slot].Size)))
		}
		f.live.push(e.Slot)
	}
}

// freed takes in the free of a node's block.
func (t *Tape) freed(node uint32) {
	f := t.follow
	if !f.live.in[node] {
		return
	}
	slot, depth := f.live.of[node], f.live.depth(node)
	f.live.drop(node)
	insert := int32(costInsertN)
	if slot != None {
		insert = costInsertF
	}
	if !f.lost {
		if slot == None {
			return
		}
		at := f.shape.free[slot]
		if at == None || at < f.seen || nextAlloc(t.Entries, f.seen) > at {
			return
		}
		t.doubt(f.seen) // freed although the tape has requests before
	}
	t.weigh(observed{free: true, slot: slot, token: tokenFree(depth), insert: insert})
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
		t.remark(at)
	}
	t.follow.seen = s.Cursor
}

// serveAt serves a request of n rounded bytes as the one of an entry.
func (t *Tape) serveAt(at uint32, n, asked uint64) Served {
	f, s := t.follow, t.State
	e := &t.Entries[at]
	t.overdue(at)
	if e.Place == None { // the pool's, and its end is not on the tape
		s.Cursor = at + 1
		t.passOver()
		return Served{Slot: None, Pool: true}
	}
	node := f.live.push(e.Slot)
	first := node == e.Slot // a second block of a position cannot have its slot
	if first && e.Offset&EntryPool == 0 && t.fits(e, n) && s.Off == 0 && t.Live[e.Place].Slot == 0 && t.clear(e) {
		got := t.take(at, asked)
		f.seen = s.Cursor
		return got
	}
	out := Served{Slot: None, Pool: e.Offset&EntryPool != 0, Ticket: t.ticket(node), Now: at, Ends: f.shape.free[e.Slot]}
	if out.Pool && first {
		t.Live[e.Place] = Live{Slot: e.Slot + 1}
	}
	t.missing(e)
	s.Cursor = at + 1
	if t.Hosts && out.Ends != None && out.Ends > at && s.Off == 0 && !t.tuning.NoGuests {
		if out.Addr, out.Guest = t.host(mem.Bytes(asked), at, out.Ends, out.Ticket); out.Guest {
			out.Ticket = 0 // the tape itself sees the block's end
		}
	}
	t.passOver()
	if !t.Hosts {
		out.Ticket = 0
	}
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
	node := uint32(ticket) - 1
	if ticket == 0 || int(node) >= len(f.live.in) || !f.live.in[node] || f.live.born[node] != uint32(ticket>>32) {
		return // a block of an earlier step, or of an earlier tape
	}
	t.catchUp()
	lost := f.lost
	t.freed(node)
	if int(node) < len(t.slots) && t.slots[node].Pool {
		t.Live[t.places[node]] = Live{}
	}
	if lost || f.lost {
		t.moveTo(f.at)
	}
	t.skipFreed()
	f.seen = t.State.Cursor
}

// Tune chooses a variant of matching, from the next step on at the latest.
func (t *Tape) Tune(v Tuning) { t.tuning = v }
