package away

import (
	"errors"
	"fmt"
	"slices"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// batchSize is about how much goes to sleep after one event.
const batchSize = 128 * mem.MiB

// batch is handles that are copied out together, and the event after their copies.
type batch struct {
	passed driver.Fence // 0: the driver was asked, and it is over
	failed error        // what the driver said in place of an answer
	parts  []*part
}

// Send begins to move at least n bytes of a closed region out, or all that it has but busy handles,
// and returns how much that is. Where the host has too little memory it is less, and the error says
// so.
func (r *Region) Send(n mem.Bytes, busy []driver.Handle) (sent mem.Bytes, err error) {
	if r.open || n <= 0 {
		return 0, nil
	}
	defer r.recount()
	picked, err := r.backUp(r.pick(n, busy))
	if len(picked) == 0 {
		return 0, err
	}
	if failed := r.Follow(r.link.out); failed != nil {
		return 0, errors.Join(err, failed)
	}
	for len(picked) > 0 {
		b, size := batch{}, mem.Bytes(0)
		for len(picked) > 0 && size < batchSize {
			p := picked[0]
			if !p.saved {
				if failed := r.link.copy(p, false); failed != nil {
					err, picked = errors.Join(err, failed), nil
					break
				}
			}
			b.parts = append(b.parts, p)
			size += p.size
			picked = picked[1:]
		}
		passed, failed := r.link.dev.Record(r.link.out)
		if failed != nil { // these parts stay, and are copied again next time
			return sent, errors.Join(err, failed)
		}
		for _, p := range b.parts {
			p.state, p.saved = leaving, true
		}
		b.passed = passed
		r.out = append(r.out, b)
		sent += size
	}
	return sent, err
}

// pick returns parts of at least n bytes that can leave, or all but busy ones. Those whose backup
// has their contents come first.
func (r *Region) pick(n mem.Bytes, busy []driver.Handle) (picked []*part) {
	for _, clean := range []bool{true, false} {
		for _, p := range r.parts {
			free := p.state == here && !slices.Contains(busy, p.handle)
			if n > 0 && free && p.clean() == clean {
				picked = append(picked, p)
				n -= p.size
			}
		}
	}
	return picked
}

// Copying reports whether copies out are under way.
func (r *Region) Copying() bool { return len(r.out) > 0 }

// Copied reports whether Settle has something to do: a copy out is over, or failed.
func (r *Region) Copied() bool {
	if len(r.out) == 0 || r.open {
		return false
	}
	b := &r.out[0]
	if b.passed != 0 {
		passed, err := r.link.dev.Done(b.passed)
		if passed || err != nil {
			b.passed, b.failed = 0, err
		}
	}
	return b.passed == 0
}

// Settle puts to sleep what has been copied, and returns how much. It does not wait.
func (r *Region) Settle() (slept mem.Bytes, err error) {
	defer r.recount()
	for r.Copied() {
		b := r.out[0]
		r.out = r.out[1:]
		for _, p := range b.parts {
			p.state = here
			p.saved = p.saved && b.failed == nil
		}
		if b.failed != nil {
			return slept, b.failed
		}
		n, err := r.sleep(b.parts)
		slept += n
		if err != nil {
			return slept, err
		}
	}
	return slept, nil
}

// sleep releases the memory of parts whose contents the backup has.
func (r *Region) sleep(parts []*part) (n mem.Bytes, err error) {
	gone := func(p *part) bool { return !slices.Contains(r.parts, p) } // no longer the region's
	parts = slices.DeleteFunc(parts, gone)
	asleep, err := r.link.dev.Sleep(handlesOf(parts))
	for _, p := range parts {
		// Even where the driver did not release the memory, it is unmapped.
		if _, _, mapped := r.link.dev.Place(p.handle); asleep && mapped {
			p.state = away
			n += p.size
		}
	}
	return n, err
}

// Sleeps says that all of a closed region sleeps, and that contents without a backup are lost.
func (r *Region) Sleeps() {
	for _, p := range r.parts {
		p.state = away
	}
	r.forgetBatches()
	r.recount()
}

func handlesOf(parts []*part) (handles []driver.Handle) {
	for _, p := range parts {
		handles = append(handles, p.handle)
	}
	return handles
}

// Fetch brings at most n bytes back: it makes memory and begins to copy, waiting only for earlier
// copies back. It returns how much. An error that matches driver.ErrOutOfMemory says that the
// device has no more.
func (r *Region) Fetch(n mem.Bytes) (fetched mem.Bytes, err error) {
	defer r.recount()
	for err == nil {
		some, size := r.next(n - fetched)
		if len(some) == 0 {
			break
		}
		if err = r.fetch(some); err == nil {
			fetched += size
		}
	}
	return fetched, errors.Join(err, r.arrive())
}

// arrive puts an event behind the copies back, if none is. With an error it may be tried again, and
// nothing that must come after the copies may begin.
func (r *Region) arrive() error {
	if !r.copies {
		return nil
	}
	arrived, err := r.link.dev.Record(r.link.back)
	if err != nil {
		return err
	}
	r.link.forget(&r.arrived)
	r.arrived, r.copies = arrived, false
	return nil
}

// Arrived reports whether the copies back have passed, and the last use. Where the driver cannot
// tell, the event is gone. The copies get another one. The last use cannot, for its stream may be
// gone, too: what comes behind it waits for the device (Follow).
func (r *Region) Arrived() (bool, error) {
	if err := r.arrive(); err != nil || r.lost {
		return false, err
	}
	for _, f := range []*driver.Fence{&r.arrived, &r.used} {
		if *f == 0 {
			continue
		}
		passed, err := r.link.dev.Done(*f)
		if passed || err != nil { // it is gone
			*f = 0
		}
		if err != nil && f == &r.arrived {
			r.copies = true
		} else if err != nil {
			r.lost = true
		}
		if !passed {
			return false, err
		}
	}
	return true, nil
}

// Unit returns the size of parts of which most bytes are away, 0: none are.
func (r *Region) Unit() (unit mem.Bytes) {
	sums := map[mem.Bytes]mem.Bytes{}
	for _, p := range r.parts {
		if p.state != away {
			continue
		}
		if sums[p.size] += p.size; sums[p.size] > sums[unit] {
			unit = p.size
		}
	}
	return unit
}

// next returns parts of at most n bytes that come back together.
func (r *Region) next(n mem.Bytes) (some []*part, size mem.Bytes) {
	for _, p := range r.parts {
		if p.state == away && size < batchSize && size+p.size <= n {
			some = append(some, p)
			size += p.size
		}
	}
	return some, size
}

// fetch wakes parts and starts to copy their contents back; after an error all of them sleep.
func (r *Region) fetch(parts []*part) error {
	if err := r.link.dev.Wake(handlesOf(parts)); err != nil {
		return err
	}
	r.copies = true
	for _, p := range parts {
		if !p.saved {
			continue // they are lost
		}
		if err := r.link.copy(p, true); err != nil {
			// Copies that have begun write to this memory: it sleeps again after them.
			again := r.link.dev.Sync()
			if again == nil {
				_, again = r.link.dev.Sleep(handlesOf(parts))
			}
			return errors.Join(fmt.Errorf("%v at %#x: %w", p.size, uint64(p.at), err), again)
		}
	}
	for _, p := range parts {
		p.state = here
	}
	return nil
}
