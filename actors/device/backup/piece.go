package backup

import (
	"errors"

	"stalloc/actors/device"
	"stalloc/internal/mem"
	"stalloc/live/hostmem"
)

// Piece is memory of the host that contents of a device are copied to.
type Piece struct {
	Memory []byte // whole pages, not Go's
	pinned bool
}

// Size returns how much memory it is.
func (x *Piece) Size() mem.Bytes { return mem.Bytes(len(x.Memory)) }

// Make returns a piece of n bytes, pinned. With an error there is none, or it is not pinned.
func (s *Store) Make(n mem.Bytes) (*Piece, error) {
	memory, err := hostmem.Take(n)
	if err != nil {
		return nil, err
	}
	if err := hostmem.Fill(memory); err != nil {
		return nil, errors.Join(err, hostmem.Give(memory))
	}
	x := &Piece{Memory: memory}
	if dev, can := s.dev.(device.Copier); can {
		err = dev.Pin(memory)
		x.pinned = err == nil
	}
	return x, err
}

// Give gives pieces back, and those that could not be given back before. What cannot be unpinned
// stays: the driver would go on to copy from and to its pages, whatever is at its address by then.
func (s *Store) Give(pieces ...*Piece) error {
	s.mu.Lock()
	pieces = append(pieces, s.stuck...)
	s.stuck = nil
	s.mu.Unlock()
	errs := make([]error, len(pieces))
	_ = hostmem.Parallel(len(pieces), func(i int) error {
		x := pieces[i]
		if x.pinned {
			errs[i] = s.dev.(device.Copier).Unpin(x.Memory)
		}
		if errs[i] == nil {
			x.pinned, errs[i] = false, hostmem.Give(x.Memory)
		}
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, x := range pieces {
		if errs[i] != nil {
			s.stuck = append(s.stuck, x)
		}
	}
	return errors.Join(errs...)
}

// Stuck returns how much could not be given back yet.
func (s *Store) Stuck() (n mem.Bytes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.stuck {
		n += x.Size()
	}
	return n
}
