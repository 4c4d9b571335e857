package away

import (
	"errors"
	"slices"

	"stalloc/actors/device"
	"stalloc/internal/mem"
	"stalloc/live/hostmem"
)

// mirror is the host memory of a region. It is kept, because pinning takes longer than copying.
type mirror []*piece

// piece is the host memory of one part, pinned.
type piece struct {
	memory []byte
	idle   bool // no part has it
	busy   bool // copies may be under way there, of a part that had it
}

// take gives each part a piece of the mirror, and returns the parts that have one. The error says
// why some have none.
func (m *mirror) take(l *Link, parts []*part) ([]*part, error) {
	var lack []*part
	sum := mem.Bytes(0)
	for _, p := range parts {
		if p.host == nil && !m.reuse(p) {
			lack = append(lack, p)
			sum += p.size
		}
	}
	if sum == 0 {
		return parts, nil
	}
	// What is needed has other sizes, and a region whose handles change would pin ever more.
	err := m.free(l, func(x *piece) bool { return x.idle && !x.busy })
	err = errors.Join(err, m.grow(l, lack, sum))
	lacks := func(p *part) bool { return p.host == nil }
	return slices.DeleteFunc(slices.Clone(parts), lacks), err
}

// reuse gives a part a piece that another part has given back.
func (m *mirror) reuse(p *part) bool {
	for _, busy := range []bool{false, true} {
		for _, x := range *m {
			if x.idle && x.busy == busy && mem.Bytes(len(x.memory)) == p.size {
				p.host, x.idle, x.busy = x, false, false
				return true
			}
		}
	}
	return false
}

// grow allocates host memory for parts and pins it, on several threads.
func (m *mirror) grow(l *Link, parts []*part, sum mem.Bytes) error {
	unlock := hostmem.Lock() // else several ranks would count the same free memory
	defer unlock()
	if err := hostmem.Check(sum); err != nil {
		return err
	}
	pin, _ := l.dev.Device.(device.Copier)
	errs := make([]error, len(parts))
	_ = hostmem.Parallel(len(parts), func(i int) error {
		parts[i].host, errs[i] = pinned(pin, parts[i].size)
		return nil
	})
	for _, p := range parts {
		if p.host != nil {
			*m = append(*m, p.host)
		}
	}
	return errors.Join(errs...)
}

// pinned returns pinned host memory.
func pinned(pin device.Copier, n mem.Bytes) (*piece, error) {
	memory, err := hostmem.Take(n)
	if err != nil {
		return nil, err
	}
	if err = hostmem.Fill(memory); err == nil && pin != nil {
		err = pin.Pin(memory)
	}
	if err != nil {
		return nil, errors.Join(err, hostmem.Give(memory))
	}
	return &piece{memory: memory}, nil
}

// free frees pieces, but for those that cannot be unpinned: the driver may still copy there.
func (m *mirror) free(l *Link, which func(*piece) bool) error {
	pin, _ := l.dev.Device.(device.Copier)
	var errs []error
	*m = slices.DeleteFunc(*m, func(x *piece) bool {
		if !which(x) {
			return false
		}
		var err error
		if pin != nil {
			err = pin.Unpin(x.memory)
		}
		if err == nil {
			err = hostmem.Give(x.memory)
		}
		errs = append(errs, err)
		return err == nil
	})
	return errors.Join(errs...)
}

// Mirror returns how much host memory the region has.
func (r *Region) Mirror() (n mem.Bytes) {
	for _, x := range r.mirror {
		n += mem.Bytes(len(x.memory))
	}
	return n
}
