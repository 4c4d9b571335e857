// Package away moves the contents of a region to the host while the program does not use it, and
// back before its next use. Its addresses and handles stay the same; their memory serves other
// requests meanwhile (package sleeper).
//
//	       Close               Send              Settle
//	open ─────────► closed ─────────► leaving ─────────► away
//	  ▲               ▲                                    │
//	  └── Open ───────┴────────────── Fetch ◄──────────────┘
//
// Copies run on two streams of their own, one for each direction of the link, and events order
// them. A region that was only read leaves without a copy, for its backup is still valid.
//
// # Who waits
//
//	work that uses the region    on its stream, for the copies back and the last use (Open)
//	work in a new block of it    on its stream, for the copies back and the last use (Follow)
//	a copy out                   on its stream, for the last use
//	a request for its memory     on the host, for the event after the copy (Settle): mapping is not
//	                             ordered by streams
//	opening the region           on the host, for memory only: until streams have done their work on
//	                             what the pool lends to the region
//
// Nothing here synchronizes the device, unless the driver has refused a copy back, or the link is
// closed.
//
// # Invariants
//
//   - memory sleeps only after its last use, that of freed blocks on other streams included, and if
//     its backup has its contents, unless the program has discarded them (Sleeps);
//   - a backup is valid from the end of a copy out until the region is closed as changed;
//   - an open region is on the device, all of it.
package away

import (
	"cmp"
	"fmt"
	"slices"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Region is one region.
type Region struct {
	All, Away, Leaving mem.Bytes // how much it has, and how much of that is where

	link    *Link
	changed bool // since it was opened, as far as the program has said so
	open    bool
	parts   []*part // by address
	out     []batch // being copied out, the oldest first
	host    []*piece
	// Events that the next copies wait for; 0: there is none.
	used    driver.Fence // after the last use
	arrived driver.Fence // after the last copy back
	copies  bool         // some are under way, without an event after them
	lost    bool         // used is gone, and nobody can say whether it has passed
}

// part is a handle.
type part struct {
	handle driver.Handle
	at     mem.Addr
	size   mem.Bytes
	state  state
	host   *piece // its backup; nil: it has none
	saved  bool   // the backup has its contents, or will have once the copies out are done
}

// state is where the contents of a part are.
type state uint8

const (
	here    state = iota
	leaving       // in a batch
	away
)

// New returns an open region that has nothing yet.
func New(l *Link) (*Region, error) {
	if l.move == nil {
		if err := l.open(); err != nil {
			return nil, err
		}
	}
	return &Region{link: l, open: true}, nil
}

// IsOpen reports whether the program uses it.
func (r *Region) IsOpen() bool { return r.open }

// Changed notes whether the contents of an open region may differ from the backup.
func (r *Region) Changed(changed bool) { r.changed = r.changed || changed }

// Close says that work queued from now on does not use the region until it is opened again. The
// last work that did is on stream. changed: its contents may differ from the backup. After an error
// it is still open.
func (r *Region) Close(stream mem.StreamID, changed bool) error {
	r.Changed(changed) // also if it is closed later
	used, err := r.link.dev.Record(stream)
	if err != nil {
		return err
	}
	r.link.forget(&r.used)
	r.used, r.lost, r.open = used, false, false
	for _, p := range r.parts {
		p.saved = p.saved && !r.changed
	}
	r.changed = false
	return nil
}

// Refresh says which handles the region has now. Free ones may have been released since it closed.
func (r *Region) Refresh(handles []driver.Handle) {
	known := map[driver.Handle]*part{}
	for _, p := range r.parts {
		known[p.handle] = p
	}
	r.parts = r.parts[:0]
	for _, h := range handles {
		at, size, mapped := r.link.dev.Place(h)
		if !mapped {
			continue
		}
		p := known[h]
		if p == nil {
			if _, usable := r.link.dev.Usable(h); !usable {
				continue // no block lies there
			}
			p = &part{handle: h, size: size}
		}
		delete(known, h)
		p.at = at
		r.parts = append(r.parts, p)
	}
	for _, p := range known { // the device was synchronized before the handle was released
		_, size, _ := r.link.dev.Place(p.handle)
		if p.host != nil {
			p.host.idle, p.host.busy = true, size > 0 // then other processes have it
		}
	}
	slices.SortFunc(r.parts, func(a, b *part) int { return cmp.Compare(a.at, b.at) })
	r.recount()
}

// Clean reports whether some of it would leave without a copy.
func (r *Region) Clean() bool { return slices.ContainsFunc(r.parts, (*part).clean) }

// clean reports whether it can leave, and its backup has its contents.
func (p *part) clean() bool { return p.saved && p.state == here }

func (r *Region) recount() {
	var sum [away + 1]mem.Bytes
	for _, p := range r.parts {
		sum[p.state] += p.size
	}
	r.Leaving, r.Away = sum[leaving], sum[away]
	r.All = sum[here] + r.Leaving + r.Away
}

// Open says that work on a stream uses the region from now on; the stream waits for the copies
// back. All of the region must have been fetched; else Open fails and changes nothing.
func (r *Region) Open(stream mem.StreamID) error {
	if r.Away > 0 {
		return fmt.Errorf("%v of %v are away", r.Away, r.All)
	}
	// Behind the last use, too: it may be another stream's, and the next event is this one's.
	if err := r.Follow(stream); err != nil {
		return err
	}
	for _, p := range r.parts { // it stays after all
		p.state = here
	}
	r.forgetBatches()
	r.open = true
	r.recount()
	return nil
}

func (r *Region) forgetBatches() {
	for i := range r.out {
		r.link.forget(&r.out[i].passed)
	}
	r.out = nil
}

// Follow makes a stream wait for the copies back, and the last use: what was freed while the region
// was closed may still be in use on the stream that closed it.
func (r *Region) Follow(stream mem.StreamID) error {
	if err := r.arrive(); err != nil {
		return err
	}
	if r.lost {
		if err := r.link.dev.Sync(); err != nil {
			return err
		}
		r.lost = false
	}
	for _, f := range []driver.Fence{r.arrived, r.used} {
		if f == 0 {
			continue
		}
		if err := r.link.move.Await(stream, f); err != nil {
			return err
		}
	}
	return nil
}

// Drop gives the backup up: the contents of what is away are lost.
func (r *Region) Drop() error {
	r.forgetBatches()
	r.link.forget(&r.used)
	r.link.forget(&r.arrived)
	return r.give(func(*piece) bool { return true })
}
