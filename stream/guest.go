package stream

import (
	"slices"

	"stalloc/internal/mem"
)

// A guest is a miss that was placed in a hole of the arena: a range that holds no
// live block and that no slot needs until the guest's predicted end. While it
// stays no longer, no slot can meet it, and the quick case need not look. If it
// stays longer, the guard must: from the entry on from which a slot could meet it,
// the tape carries a mark that sends the quick case to Go.
//
//	entry   120         180            230 ⚑
//	        guest placed  predicted end  first request behind the time it was
//	                                     placed for: marked while the guest lives
//
// A mark is the lowest bit of an entry's Size, which is then the size of no
// request.

const marked = 1

// A guest is placed where no slot comes for long entries behind its predicted end
// if there is such a hole, else for short ones: the prediction is the end of a
// position, and the block may not be that position's.
const (
	long  = 512
	short = 32
)

// guest is a live guest.
type guest struct {
	gap
	asked  mem.Bytes
	ticket Ticket
	since  uint32 // no slot between this entry and the mark meets it
	mark   uint32 // the entry that carries its mark; None: no slot behind meets it
	pinned bool
	freed  bool // by the program, while it is pinned
}

// guests are sorted by offset.
type guests struct {
	at     []guest
	absent []absent
	marks  [][]uint8 // by order and entry: guests marked there; 255: it stays marked

	rooms, free, block gaps // scratch
}

// host places a request of a known end as a guest.
func (t *Tape) host(asked mem.Bytes, now, ends uint32, ticket Ticket) (mem.Addr, bool) {
	want := grains(uint64(mem.Round(asked)))
	last := uint32(len(t.Entries) - 1)
	until := min(last, ends+long)
	best, found := t.room(now, until, want)
	if !found {
		until = min(last, ends+short)
		best, found = t.room(now, until, want)
	}
	if !found {
		return 0, false
	}
	t.admit(guest{gap: gap{best.lo, best.lo + want}, asked: asked, ticket: ticket}, until)
	return mem.Addr(t.State.Base + uint64(best.lo)*uint64(mem.Grain)), true
}

// room returns the smallest range that can hold want grains until an entry.
func (t *Tape) room(now, until, want uint32) (best gap, found bool) {
	best.hi = 1<<32 - 1
	for _, room := range t.idle(now, until, want) {
		// Not where a slot begins: the quick case must find none there.
		for t.place(uint64(room.lo)*uint64(mem.Grain)) != None {
			room.lo++
		}
		if room.hi > room.lo && room.hi-room.lo >= want && room.hi-room.lo < best.hi-best.lo {
			best, found = room, true
		}
	}
	return best, found
}

// admit adds a guest that no slot meets until an entry.
func (t *Tape) admit(n guest, until uint32) {
	g := &t.guests
	i, _ := slices.BinarySearchFunc(g.at, n.lo, byLo)
	g.at = slices.Insert(g.at, i, n)
	g.at[i].since = t.State.Cursor
	t.mark(&g.at[i], nextAlloc(t.Entries, min(until+1, uint32(len(t.Entries)-1))))
}

func byLo(a guest, lo uint32) int { return int(int64(a.lo) - int64(lo)) }

// idle returns the ranges of at least least grains that are idle now and that no
// slot needs until an entry, each once. The result is valid until the next call.
func (t *Tape) idle(now, until, least uint32) gaps {
	g := &t.guests
	g.rooms = t.holes[t.order].idle(g.rooms[:0], now, until, least)
	g.absent = slices.DeleteFunc(g.absent, func(a absent) bool { return a.until <= now })
	for _, a := range g.absent {
		if a.hi-a.lo < least {
			continue
		}
		if until < a.until {
			g.rooms = append(g.rooms, a.gap)
			continue
		}
		from := len(g.rooms)
		g.rooms = t.holes[t.order].idle(g.rooms, a.until+1, until, least)
		kept := from
		for _, r := range g.rooms[from:] {
			if r = (gap{max(r.lo, a.lo), min(r.hi, a.hi)}); r.hi > r.lo && r.hi-r.lo >= least {
				g.rooms[kept] = r
				kept++
			}
		}
		g.rooms = g.rooms[:kept]
	}
	return t.unblocked(g.rooms, least)
}

// unblocked returns what guests and owed slots leave of ranges, in pieces of at
// least least grains.
func (t *Tape) unblocked(rooms gaps, least uint32) gaps {
	g := &t.guests
	g.free = g.free[:0]
	blocked := t.blocked()
	for _, r := range rooms {
		r.hi = min(r.hi, grains(min(t.covered, maxKey*uint64(mem.Grain))))
		if r.hi < r.lo+least {
			continue
		}
		m, _ := slices.BinarySearchFunc(blocked, r.lo, func(b gap, lo uint32) int {
			if b.hi <= lo {
				return -1
			}
			return 1
		})
		lo := r.lo
		for ; m < len(blocked) && blocked[m].lo < r.hi; m++ {
			if blocked[m].lo > lo && blocked[m].lo-lo >= least {
				g.free = append(g.free, gap{lo, blocked[m].lo})
			}
			lo = max(lo, blocked[m].hi)
		}
		if r.hi > lo && r.hi-lo >= least {
			g.free = append(g.free, gap{lo, r.hi})
		}
	}
	return g.free
}

// absent is a range that the tape has in use but the step does not: its slot was
// left out or could not be served. Until the slot's free no other slot needs it.
type absent struct {
	gap
	from, until uint32 // entries of its allocation and its free
}

// missing notes that the slot of an allocation entry is not served.
func (t *Tape) missing(e *Entry) {
	if until := t.follow.shape.free[e.Slot]; e.Offset&EntryPool == 0 && until != None && uint64(t.slots[e.Slot].Size) >= large {
		lo := grains(e.offset())
		t.guests.absent = append(t.guests.absent, absent{gap{lo, lo + grains(uint64(t.slots[e.Slot].Size))}, t.follow.shape.alloc[e.Slot], until})
	}
}

// taken reports whether a guest lies in a range: ranges of absent slots may
// overlap holes.
func (t *Tape) taken(r gap) bool {
	g := t.guests.at
	i, _ := slices.BinarySearchFunc(g, r.lo, byLo)
	return i > 0 && g[i-1].hi > r.lo || i < len(g) && g[i].lo < r.hi
}

// blocked returns the ranges that hold guests or owed slots, merged.
func (t *Tape) blocked() []gap {
	g := &t.guests
	g.block = g.block[:0]
	for i := range g.at {
		g.block = append(g.block, g.at[i].gap)
	}
	s := t.State
	for _, place := range s.OwedAt[:s.Owed] {
		o := t.offsets[place]
		b := gap{grains(o), grains(o + uint64(t.slots[t.Live[place].Slot-1].Size))}
		i, _ := slices.BinarySearchFunc(g.block, b.lo, func(a gap, lo uint32) int { return int(int64(a.lo) - int64(lo)) })
		g.block = slices.Insert(g.block, i, b)
	}
	return g.block
}

// meets reports whether a live guest lies in the slot of an entry.
func (t *Tape) meets(e *Entry) bool {
	lo, hi := grains(e.offset()), grains(e.offset()+uint64(t.slots[e.Slot].Size))
	return t.taken(gap{lo, hi})
}

// Occupied returns how many bytes of the arena live slots and guests take.
func (t *Tape) Occupied() (n mem.Bytes) {
	for _, l := range t.Live {
		if l.Slot != 0 && !t.slots[l.Slot-1].Pool {
			n += mem.Round(mem.Bytes(l.Asked))
		}
	}
	for i := range t.guests.at {
		n += mem.Round(t.guests.at[i].asked)
	}
	return n
}

// Guests returns how many guests live in the arena.
func (t *Tape) Guests() int { return len(t.guests.at) }

// guestAt returns the index of the guest that starts at an offset, or -1.
func (t *Tape) guestAt(offset uint64) int {
	lo := grains(offset)
	i, found := slices.BinarySearchFunc(t.guests.at, lo, byLo)
	if !found || offset%uint64(mem.Grain) != 0 {
		return -1
	}
	return i
}

// freeGuest is Free for a guest.
func (t *Tape) freeGuest(addr mem.Addr) Freed {
	i := t.guestAt(uint64(addr) - t.State.Base)
	if i < 0 || t.guests.at[i].freed {
		return Freed{Slot: None}
	}
	g := &t.guests.at[i]
	f := Freed{Slot: None, Guest: true, Asked: g.asked, Pinned: g.pinned}
	if f.Pinned {
		g.freed = true
	} else {
		t.leave(i)
	}
	return f
}

// leave ends a guest's life.
func (t *Tape) leave(i int) {
	g := &t.guests
	t.unmark(&g.at[i])
	ticket := g.at[i].ticket
	g.at = slices.Delete(g.at, i, i+1)
	t.Ended(ticket)
}
