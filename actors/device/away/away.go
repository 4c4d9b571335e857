// Package away moves the contents of a region to the host while nobody uses it, and back ahead of
// its next use. Its addresses and handles stay; meanwhile their memory serves others (package
// sleeper).
//
//	       Close               Send              Settle
//	open ─────────► closed ─────────► leaving ─────────► away
//	  ▲               ▲                                    │
//	  └── Open ───────┴────────────── Fetch ◄──────────────┘
//
// Nothing here waits for the device, but where the driver has refused an event or a copy. Copies
// run on two streams of their own, one for each direction of the link, and events order them: a
// copy out is after the last use, a handle sleeps when an event after its copy has passed, and who
// opens the region has its stream wait for the copies back. A region that was only read leaves
// without a copy, for its mirror is still right.
//
// # Invariants
//
//   - memory sleeps only behind its last use, and if its mirror has its contents;
//   - a mirror is right from the end of a copy out until the region is closed as changed;
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
	link    *Link
	changed bool // since it was opened, as far as that was said
	open    bool
	parts   []*part // by address
	out     []batch // under way, the oldest first
	// Events that the next copies wait for; 0: there is none.
	used               driver.Fence   // behind the last use
	arrived            driver.Fence   // behind the last copy back
	stale              []driver.Fence // nobody waits for them any more
	mirror             mirror
	all, away, leaving mem.Bytes // sums of parts
}

// part is a handle.
type part struct {
	handle driver.Handle
	at     mem.Addr
	size   mem.Bytes
	host   []byte // its mirror; nil: it has none
	saved  bool   // the mirror has its contents, or will have when the copies out have passed
	leaves bool   // a batch has it
	away   bool
	gone   bool // the region has it no more
}

// New returns an open region that has nothing yet.
func New(l *Link) *Region { return &Region{link: l, open: true} }

// IsOpen reports whether the program uses it.
func (r *Region) IsOpen() bool { return r.open }

// Changed says that the contents of an open region are not what the mirror has, if so.
func (r *Region) Changed(changed bool) { r.changed = r.changed || changed }

// Close says that work given to streams from now on does not use the region, which has these
// handles, until it is opened. Work on stream was the last that did. changed: its contents are not
// what the mirror has. With an error it is open as before.
func (r *Region) Close(stream mem.StreamID, handles []driver.Handle, changed bool) error {
	r.Changed(changed) // also if it is closed later
	used, err := r.link.dev.Record(stream)
	if err != nil {
		return err
	}
	r.forget(&r.used)
	r.used, r.open = used, false
	r.Refresh(handles)
	for _, p := range r.parts {
		p.saved = p.saved && !r.changed
	}
	r.changed = false
	return nil
}

// Refresh says which handles the region has now. Free ones may have gone since it was closed.
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
			p = &part{handle: h, size: size}
		}
		delete(known, h)
		p.at = at
		r.parts = append(r.parts, p)
	}
	for _, p := range known { // the device was waited for before its handle went
		p.gone = true
		r.mirror.give(p.host)
	}
	slices.SortFunc(r.parts, func(a, b *part) int { return cmp.Compare(a.at, b.at) })
	r.recount()
}

// Size returns what the region has, and how much of it is away or leaving.
func (r *Region) Size() (all, away, leaving mem.Bytes) { return r.all, r.away, r.leaving }

// Piece returns the size of a handle that is away, 0: none is.
func (r *Region) Piece() mem.Bytes {
	for _, p := range r.parts {
		if p.away {
			return p.size
		}
	}
	return 0
}

// recount sums up what the parts have.
func (r *Region) recount() {
	r.all, r.away, r.leaving = 0, 0, 0
	for _, p := range r.parts {
		r.all += p.size
		switch {
		case p.away:
			r.away += p.size
		case p.leaves:
			r.leaving += p.size
		}
	}
}

// Open says that work on a stream uses the region from now on, behind the copies back. All of it
// must have been fetched; else there is an error, and nothing has changed.
func (r *Region) Open(stream mem.StreamID) error {
	if all, away, _ := r.Size(); away > 0 {
		return fmt.Errorf("%v of %v are away", away, all)
	}
	if err := r.link.order(stream, r.arrived); err != nil {
		return err
	}
	for i := range r.out { // it stays after all
		for _, p := range r.out[i].parts {
			p.leaves = false
		}
		r.forget(&r.out[i].passed)
	}
	r.out, r.open = nil, true
	r.recount()
	return nil
}

// forget gives an event up that nobody waits for any more. The device has it until it has passed.
func (r *Region) forget(f *driver.Fence) {
	if *f != 0 {
		r.stale = append(r.stale, *f)
	}
	*f = 0
}

// Drop gives the mirror up: what is away has no contents any more.
func (r *Region) Drop() error { return r.mirror.drop(r.link) }
