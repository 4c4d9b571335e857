// Package away moves the contents of a region to the host while nobody uses it, and back ahead of
// its next use. Its addresses and handles stay; meanwhile their memory serves others (package
// sleeper).
//
//	       Close               Send              Settle
//	open ─────────► closed ─────────► leaving ─────────► away
//	  ▲               ▲                                    │
//	  └── Open ───────┴────────────── Fetch ◄──────────────┘
//
// Nothing here waits for the device but Await. Copies run on two streams of their own, one for each
// direction of the link, and events order them: a copy out is behind the last use, a handle sleeps
// when an event behind its copy has passed, and who opens the region has its stream wait for the
// copies back. A region that was only read leaves without a copy, for its mirror is still right.
//
// # Invariants
//
//   - memory sleeps only behind its last use, and if its mirror has its contents;
//   - a mirror is right from the end of a copy out until the region is closed as changed;
//   - an open region is on the device, all of it.
package away

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"stalloc/actors/device"
	"stalloc/actors/device/sleeper"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// batch is what sleeps behind one event.
const batchSize = 128 * mem.MiB

// Link is a device and its two copy streams, made with the first region.
type Link struct {
	dev       *sleeper.Device
	move      device.Mover
	out, back mem.StreamID
}

// NewLink makes the streams. The error says that the device cannot copy beside the program.
func NewLink(dev *sleeper.Device) (*Link, error) {
	move, can := dev.Device.(device.Mover)
	if !can {
		return nil, fmt.Errorf("the contents of %s cannot be moved beside the program", dev.Name())
	}
	l := &Link{dev: dev, move: move}
	var err error
	if l.out, err = move.NewStream(); err != nil {
		return nil, err
	}
	if l.back, err = move.NewStream(); err != nil {
		return nil, errors.Join(err, move.DropStream(l.out))
	}
	return l, nil
}

// Close gives the streams back, once their copies have passed.
func (l *Link) Close() error {
	return errors.Join(l.dev.Sync(), l.move.DropStream(l.out), l.move.DropStream(l.back))
}

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
	all, gone, leaving mem.Bytes // sums of parts
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

// batch is what leaves behind an event of the copy stream.
type batch struct {
	passed driver.Fence
	parts  []*part
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
func (r *Region) Size() (all, away, leaving mem.Bytes) { return r.all, r.gone, r.leaving }

// recount sums up what the parts have.
func (r *Region) recount() {
	r.all, r.gone, r.leaving = 0, 0, 0
	for _, p := range r.parts {
		r.all += p.size
		switch {
		case p.away:
			r.gone += p.size
		case p.leaves:
			r.leaving += p.size
		}
	}
}

// Send begins to move at least n bytes of a closed region out, or all that it has, and returns how
// much that is. Where the host has too little memory it is less, and the error says so.
func (r *Region) Send(n mem.Bytes) (sent mem.Bytes, err error) {
	if r.open || n <= 0 {
		return 0, nil
	}
	defer r.recount()
	var picked []*part
	for _, p := range r.parts {
		if sent < n && !p.away && !p.leaves {
			picked = append(picked, p)
			sent += p.size
		}
	}
	if picked, err = r.mirror.take(r.link, picked); len(picked) == 0 {
		return 0, err
	}
	sent = 0
	if failed := r.order(r.link.out, r.used, r.arrived); failed != nil {
		return 0, errors.Join(err, failed)
	}
	for len(picked) > 0 {
		b, size := batch{}, mem.Bytes(0)
		for len(picked) > 0 && size < batchSize {
			p := picked[0]
			if !p.saved {
				if failed := r.link.move.CopyOut(p.host, p.at, r.link.out); failed != nil {
					err, picked = errors.Join(err, failed), nil
					break
				}
			}
			b.parts = append(b.parts, p)
			size += p.size
			picked = picked[1:]
		}
		passed, failed := r.link.dev.Record(r.link.out)
		if failed != nil { // what is copied may be copied again
			return sent, errors.Join(err, failed)
		}
		for _, p := range b.parts {
			p.leaves, p.saved = true, true
		}
		b.passed = passed
		r.out = append(r.out, b)
		sent += size
	}
	return sent, err
}

// order has what a stream is given from now on begin behind events, where they are.
func (r *Region) order(stream mem.StreamID, behind ...driver.Fence) error {
	for _, f := range behind {
		if f == 0 {
			continue
		}
		if err := r.link.move.Await(stream, f); err != nil {
			return err
		}
	}
	return nil
}

// Leaving reports whether copies out are under way.
func (r *Region) Leaving() bool { return len(r.out) > 0 }

// Settle puts to sleep what has been copied, and returns how much. It does not wait.
func (r *Region) Settle() (slept mem.Bytes, err error) {
	r.stale = slices.DeleteFunc(r.stale, func(f driver.Fence) bool {
		passed, err := r.link.dev.Done(f)
		return passed || err != nil
	})
	defer r.recount()
	for len(r.out) > 0 && !r.open {
		b := r.out[0]
		passed, err := r.link.dev.Done(b.passed)
		if err == nil && !passed {
			break
		}
		r.out = r.out[1:]
		for _, p := range b.parts {
			p.leaves = false
			p.saved = p.saved && err == nil
		}
		if err != nil {
			return slept, err
		}
		n, err := r.sleep(b.parts)
		slept += n
		if err != nil {
			return slept, err
		}
	}
	return slept, nil
}

// sleep gives memory back whose contents the mirror has.
func (r *Region) sleep(parts []*part) (n mem.Bytes, err error) {
	parts = slices.DeleteFunc(parts, func(p *part) bool { return p.gone })
	asleep, err := r.link.dev.Sleep(handlesOf(parts))
	for _, p := range parts {
		// What the driver has not taken back is mapped nowhere all the same.
		if _, _, mapped := r.link.dev.Place(p.handle); asleep && mapped {
			p.away = true
			n += p.size
		}
	}
	return n, err
}

func handlesOf(parts []*part) (handles []driver.Handle) {
	for _, p := range parts {
		handles = append(handles, p.handle)
	}
	return handles
}

// Fetch brings at most n bytes back: it makes memory and begins to copy, behind nothing but other
// copies back. It returns how much. An error that matches driver.ErrOutOfMemory says that the
// device has no more.
func (r *Region) Fetch(n mem.Bytes) (fetched mem.Bytes, err error) {
	defer r.recount()
	for fetched < n && err == nil {
		var some []*part
		size := mem.Bytes(0)
		for _, p := range r.parts {
			if p.away && size < batchSize && fetched+size+p.size <= n {
				some = append(some, p)
				size += p.size
			}
		}
		if len(some) == 0 {
			break
		}
		if err = r.fetch(some); err == nil {
			fetched += size
		}
	}
	if fetched == 0 {
		return 0, err
	}
	arrived, failed := r.link.dev.Record(r.link.back)
	if failed != nil {
		return fetched, errors.Join(err, failed, r.wait())
	}
	r.forget(&r.arrived)
	r.arrived = arrived
	return fetched, err
}

// fetch wakes parts and copies their contents; none of them, with an error.
func (r *Region) fetch(parts []*part) error {
	if err := r.link.dev.Wake(handlesOf(parts)); err != nil {
		return err
	}
	for _, p := range parts {
		if err := r.link.move.CopyBack(p.at, p.host, r.link.back); err != nil {
			// Copies that have begun write to what sleeps again: behind them.
			again := r.wait()
			if again == nil {
				_, again = r.link.dev.Sleep(handlesOf(parts))
			}
			return errors.Join(fmt.Errorf("%v at %#x: %w", p.size, uint64(p.at), err), again)
		}
	}
	for _, p := range parts {
		p.away = false
	}
	return nil
}

// wait waits for the device: the driver has not taken an event.
func (r *Region) wait() error { return r.link.dev.Sync() }

// Open says that work on a stream uses the region from now on, behind the copies back. All of it
// must have been fetched; else there is an error, and nothing has changed.
func (r *Region) Open(stream mem.StreamID) error {
	if all, away, _ := r.Size(); away > 0 {
		return fmt.Errorf("%v of %v are away", away, all)
	}
	if err := r.order(stream, r.arrived); err != nil {
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
