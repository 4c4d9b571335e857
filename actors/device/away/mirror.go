package away

import (
	"errors"
	"sync"
	"sync/atomic"

	"stalloc/actors/device"
	"stalloc/internal/mem"
	"stalloc/live/hostmem"
)

// mirror is the host's memory of a region. It is kept: pinning takes longer than copying.
type mirror struct {
	spare  [][]byte // pieces that no part has, pinned
	blocks [][]byte // pieces as they were pinned
	held   mem.Bytes
}

const pinThreads = 8 // the kernel zeroes pages more slowly than the link carries them

// take gives each part a piece of the mirror, and returns those that have one. The error says why
// some have none.
func (m *mirror) take(l *Link, parts []*part) ([]*part, error) {
	var lack []*part
	sum := mem.Bytes(0)
	for _, p := range parts {
		if p.host == nil && !m.reuse(p) {
			lack = append(lack, p)
			sum += p.size
		}
	}
	err := m.grow(l, lack, sum)
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

// reuse gives a part a piece that another has left.
func (m *mirror) reuse(p *part) bool {
	for i, piece := range m.spare {
		if mem.Bytes(len(piece)) == p.size {
			p.host, m.spare = piece, append(m.spare[:i], m.spare[i+1:]...)
			return true
		}
	}
	return false
}

// give takes a piece back.
func (m *mirror) give(piece []byte) {
	if piece != nil {
		m.spare = append(m.spare, piece)
	}
}

// grow takes memory of the host for parts and pins it, on several threads.
func (m *mirror) grow(l *Link, parts []*part, sum mem.Bytes) error {
	if sum == 0 {
		return nil
	}
	unlock := hostmem.Lock() // or several ranks would all find the same room
	defer unlock()
	if err := hostmem.Check(sum); err != nil {
		return err
	}
	pin, _ := l.dev.Device.(device.Copier)
	var next atomic.Int64
	var all sync.WaitGroup
	errs, pieces := make([]error, len(parts)), make([][]byte, len(parts))
	for range min(pinThreads, len(parts)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(parts)); i = next.Add(1) - 1 {
				pieces[i], errs[i] = pinned(pin, parts[i].size)
			}
		})
	}
	all.Wait()
	for i, piece := range pieces {
		if piece != nil {
			parts[i].host = piece
			m.blocks = append(m.blocks, piece)
			m.held += mem.Bytes(len(piece))
		}
	}
	return errors.Join(errs...)
}

// pinned returns memory of the host.
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

// drop gives all of it back. What cannot be unpinned stays until it is called again, for the driver
// may go on to copy there.
func (m *mirror) drop(l *Link) error {
	pin, _ := l.dev.Device.(device.Copier)
	var errs []error
	var left mirror
	for _, piece := range m.blocks {
		var err error
		if pin != nil {
			err = pin.Unpin(piece)
		}
		if err == nil {
			err = hostmem.Give(piece)
		}
		if err != nil {
			left.blocks = append(left.blocks, piece)
			left.held += mem.Bytes(len(piece))
		}
		errs = append(errs, err)
	}
	*m = left
	return errors.Join(errs...)
}

// Mirror returns how much of the host's memory the region has.
func (r *Region) Mirror() mem.Bytes { return r.mirror.held }
