package backup

import (
	"errors"
	"slices"

	"stalloc/actors/device"
	"stalloc/internal/mem"
	"stalloc/live/hostmem"
)

// Piece is memory of the host that contents of a device are copied to.
type Piece struct {
	Memory []byte // whole pages, not Go's
	pinned bool
	whole  bool // made with pieceSize, not rounded up to it
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

// obtain is Make, but takes a spare piece if n is pieceSize.
func (s *Store) obtain(n mem.Bytes) (*Piece, error) {
	if n < pieceSize { // a spare one would be larger than Save has checked and Kept says
		return s.Make(n)
	}
	s.mu.Lock()
	if last := len(s.spare) - 1; last >= 0 {
		x := s.spare[last]
		s.spare = s.spare[:last]
		s.mu.Unlock()
		return x, nil
	}
	s.mu.Unlock()
	x, err := s.Make(n)
	if x != nil {
		x.whole = true
	}
	return x, err
}

// Keep keeps whole pieces for the next Save. settle takes longer: it gives the other pieces back,
// and all spare ones if the host has little free.
func (s *Store) Keep(pieces []*Piece) (settle func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := slices.DeleteFunc(pieces, func(x *Piece) bool {
		keep := x.pinned && x.whole
		if keep {
			s.spare = append(s.spare, x)
		}
		return keep
	})
	ended := s.ended
	return func() error {
		err := s.Give(rest...)
		unlock := hostmem.Lock() // or several ranks would all give theirs back
		defer unlock()
		if ended || !s.host.ample() {
			err = errors.Join(err, s.Bound(0))
		}
		return err
	}
}

// Spare returns how much is kept for the next Save.
func (s *Store) Spare() mem.Bytes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return mem.Bytes(len(s.spare)) * pieceSize
}

// End gives spare pieces back, and keeps none from now on.
func (s *Store) End() error {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	return s.Bound(0)
}

// Bound gives back the spare pieces beyond what n bytes need.
func (s *Store) Bound(n mem.Bytes) error {
	s.mu.Lock()
	keep := min(int((n+pieceSize-1)/pieceSize), len(s.spare))
	over := slices.Clone(s.spare[keep:])
	s.spare = slices.Delete(s.spare, keep, len(s.spare))
	s.mu.Unlock()
	if len(over) == 0 {
		return nil
	}
	return s.Give(over...)
}

// Room is hostmem.Room. If there is too little, spare pieces make way.
func (s *Store) Room(n mem.Bytes) (mem.Bytes, error) {
	room, err := s.host.room(n)
	if err == nil || s.Spare() == 0 {
		return room, err
	}
	given := s.Bound(0)
	room, err = s.host.room(n)
	return room, errors.Join(err, given)
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
