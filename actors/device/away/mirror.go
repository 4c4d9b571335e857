package away

import (
	"errors"
	"slices"

	"stalloc/actors/device"
	"stalloc/internal/mem"
	"stalloc/live/hostmem"
)

// mirror is the host memory of a region. It is kept, because pinning takes longer than copying.
type mirror struct {
	spare  [][]byte // pieces that no part has, pinned: nothing copies there
	left   [][]byte // such ones where copies may be under way
	blocks [][]byte // pieces as they were pinned
	held   mem.Bytes
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
	var err error
	if sum > 0 {
		err = errors.Join(m.shrink(l), m.grow(l, lack, sum))
	}
	if err == nil {
		return parts, nil
	}
	var have []*part
	for _, p := range parts {
		if p.host != nil {
			have = append(have, p)
		}
	}
	return have, err
}

// reuse gives a part a piece that another part has given back.
func (m *mirror) reuse(p *part) bool {
	for _, list := range []*[][]byte{&m.spare, &m.left} {
		for i, piece := range *list {
			if mem.Bytes(len(piece)) == p.size {
				p.host, *list = piece, slices.Delete(*list, i, i+1)
				return true
			}
		}
	}
	return false
}

// give takes a piece back. there: its handle is there, and copies may be under way.
func (m *mirror) give(piece []byte, there bool) {
	switch {
	case piece == nil:
	case there:
		m.left = append(m.left, piece)
	default:
		m.spare = append(m.spare, piece)
	}
}

// grow allocates host memory for parts and pins it, on several threads.
func (m *mirror) grow(l *Link, parts []*part, sum mem.Bytes) error {
	unlock := hostmem.Lock() // else several ranks would count the same free memory
	defer unlock()
	if err := hostmem.Check(sum); err != nil {
		return err
	}
	pin, _ := l.dev.Device.(device.Copier)
	errs, pieces := make([]error, len(parts)), make([][]byte, len(parts))
	_ = hostmem.Parallel(len(parts), func(i int) error {
		pieces[i], errs[i] = pinned(pin, parts[i].size)
		return nil
	})
	for i, piece := range pieces {
		if piece != nil {
			parts[i].host = piece
			m.blocks = append(m.blocks, piece)
			m.held += mem.Bytes(len(piece))
		}
	}
	return errors.Join(errs...)
}

// pinned returns pinned host memory.
func pinned(pin device.Copier, n mem.Bytes) ([]byte, error) {
	piece, err := hostmem.Take(n)
	if err != nil {
		return nil, err
	}
	if err = hostmem.Fill(piece); err == nil && pin != nil {
		err = pin.Pin(piece)
	}
	if err != nil {
		return nil, errors.Join(err, hostmem.Give(piece))
	}
	return piece, nil
}

// shrink frees the pieces that no part has. What is needed has other sizes, and a region whose
// handles change would pin ever more.
func (m *mirror) shrink(l *Link) error {
	idle := map[*byte]bool{}
	for _, piece := range m.spare {
		idle[&piece[0]] = true
	}
	m.spare = nil
	err := m.free(l, func(piece []byte) bool { return idle[&piece[0]] })
	for _, piece := range m.blocks { // of those, what the driver would not unpin
		if idle[&piece[0]] {
			m.spare = append(m.spare, piece)
		}
	}
	return err
}

// drop frees all of it. Memory that cannot be unpinned stays until drop is called again, for the
// driver may still copy there.
func (m *mirror) drop(l *Link) error {
	m.spare, m.left = nil, nil
	return m.free(l, func([]byte) bool { return true })
}

// free frees pieces, but for those that cannot be unpinned: the driver may still copy there.
func (m *mirror) free(l *Link, which func(piece []byte) bool) error {
	pin, _ := l.dev.Device.(device.Copier)
	var errs []error
	m.blocks = slices.DeleteFunc(m.blocks, func(piece []byte) bool {
		if !which(piece) {
			return false
		}
		var err error
		if pin != nil {
			err = pin.Unpin(piece)
		}
		if err == nil {
			err = hostmem.Give(piece)
		}
		if errs = append(errs, err); err == nil {
			m.held -= mem.Bytes(len(piece))
		}
		return err == nil
	})
	return errors.Join(errs...)
}

// Mirror returns how much host memory the region has.
func (r *Region) Mirror() mem.Bytes { return r.mirror.held }
