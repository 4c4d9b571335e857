package stream

import (
	"slices"

	"stalloc/internal/mem"
)

// Range is a part of the arena.
type Range struct {
	Offset mem.Offset
	Size   mem.Bytes
}

// Lend gives whole pages of the arena to a block of the pool, as much of its size
// as idle pages can hold, and returns them. The block must have come with a
// ticket; the pages come back with Tape.Returned. They lie apart: whoever borrows
// them stitches them.
//
// Pages that stay idle for the block's predicted life come first. If force is
// set, pages that a slot needs before are lent as well, those that are needed
// last first: the guard will refuse those slots, and their requests borrow in
// turn. So no match, however wrong, takes more memory than having no plan; it
// takes the driver's time instead, and is meant for when the pool would have to
// grow beyond the largest load seen.
func (t *Tape) Lend(s Served, size mem.Bytes, force bool, out []Range) []Range {
	want := uint32(size / mem.HandleSize)
	if s.Ticket == 0 || want == 0 {
		return out
	}
	ends := s.Ends
	if ends == None {
		ends = s.Now + unforeseen
	}
	last, now := uint32(len(t.Entries)-1), t.State.Cursor
	want, out = t.lend(s, want, max(now, min(ends+short, last)), out)
	for until := max(now, min(ends, last)); force && want > 0; until = now + (until-now)/2 {
		want, out = t.lend(s, want, until, out)
		if until == now {
			break
		}
	}
	return out
}

// lend lends pages that are idle until an entry, the smallest ranges first, and
// returns how many are still wanted.
func (t *Tape) lend(s Served, want, until uint32, out []Range) (uint32, []Range) {
	const page = uint32(mem.HandleSize / mem.Grain)
	pages := t.unblocked(t.unused(t.guests.rooms[:0], until), page)
	slices.SortFunc(pages, func(a, b gap) int { return int(int64(a.hi-a.lo) - int64(b.hi-b.lo)) })
	for _, p := range pages {
		p.lo, p.hi = (p.lo+page-1)/page*page, p.hi/page*page
		if want == 0 || p.hi <= p.lo {
			continue
		}
		n := min(want, (p.hi-p.lo)/page)
		p.hi = p.lo + n*page
		if t.taken(p) {
			continue
		}
		want -= n
		t.admit(guest{gap: p, ticket: s.Ticket, lent: true}, until)
		out = append(out, Range{mem.Offset(p.lo) * mem.Offset(mem.Grain), mem.Bytes(p.hi-p.lo) * mem.Grain})
	}
	return want, out
}

// unforeseen is how many entries a block that no position explains is expected to
// live.
const unforeseen = 256

// Returned says that the pages lent to a block are no longer in use: it was freed
// and what other streams had queued on it is done.
func (t *Tape) Returned(ticket Ticket) {
	g := &t.guests
	kept := g.at[:0]
	for i := range g.at {
		if g.at[i].lent && g.at[i].ticket == ticket {
			t.unmark(&g.at[i])
			continue
		}
		kept = append(kept, g.at[i])
	}
	g.at = kept
}

// unused appends what no live slot occupies and no slot needs from the cursor to
// an entry. Unlike idle it goes through all live slots, and so knows exactly
// what the step has left unused. A tape that is off needs nothing until the next
// step.
func (t *Tape) unused(out gaps, until uint32) gaps {
	g := &t.guests
	g.busy = g.busy[:0]
	for place, l := range t.Live[:len(t.offsets)-t.pools] {
		if l.Slot != 0 {
			o := t.offsets[place]
			g.busy = append(g.busy, gap{grains(o), grains(o + uint64(t.slots[l.Slot-1].Size))})
		}
	}
	if t.State.Off == 0 {
		for i := t.State.Cursor; i <= until; i++ {
			if e := &t.Entries[i]; e.Size != 0 && e.Offset&EntryPool == 0 {
				g.busy = append(g.busy, gap{grains(e.offset()), grains(e.offset() + uint64(t.slots[e.Slot].Size))})
			}
		}
	}
	slices.SortFunc(g.busy, func(a, b gap) int { return int(int64(a.lo) - int64(b.lo)) })
	return between(out, g.busy, grains(uint64(t.holes[t.order].arena)))
}
