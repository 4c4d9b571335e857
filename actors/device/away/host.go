package away

import (
	"errors"
	"slices"

	"stalloc/actors/device/backup"
	"stalloc/internal/mem"
	"stalloc/live/hostmem"
)

// piece is the backup of a part. A region keeps its pieces, because pinning takes longer than
// copying.
type piece struct {
	*backup.Piece
	idle bool // no part has it
	busy bool // copies may be under way there, of a part that had it
}

// Backup returns how much host memory the region has.
func (r *Region) Backup() (n mem.Bytes) {
	for _, x := range r.host {
		n += x.Size()
	}
	return n
}

// backUp gives each part a piece, and returns the parts that have one. The error says why some have
// none.
func (r *Region) backUp(parts []*part) ([]*part, error) {
	var missing []*part
	sum := mem.Bytes(0)
	for _, p := range parts {
		if p.host == nil && !r.reuse(p) {
			missing = append(missing, p)
			sum += p.size
		}
	}
	if sum == 0 {
		return parts, nil
	}
	// What is needed has other sizes, and a region whose handles change would pin ever more.
	err := r.give(func(x *piece) bool { return x.idle && !x.busy })
	err = errors.Join(err, r.grow(missing, sum))
	return slices.DeleteFunc(slices.Clone(parts), func(p *part) bool { return p.host == nil }), err
}

// reuse gives a part a piece that another part has given back.
func (r *Region) reuse(p *part) bool {
	for _, busy := range []bool{false, true} {
		for _, x := range r.host {
			if x.idle && x.busy == busy && x.Size() == p.size {
				p.host, x.idle, x.busy = x, false, false
				return true
			}
		}
	}
	return false
}

// grow makes pieces for parts, on several threads: for as many as the host has room for.
func (r *Region) grow(parts []*part, sum mem.Bytes) error {
	unlock := hostmem.Lock() // else several ranks would count the same free memory
	defer unlock()
	room, full := r.link.host.Room(sum)
	parts = fitting(parts, room)
	made, errs := make([]*backup.Piece, len(parts)), make([]error, len(parts))
	_ = hostmem.Parallel(len(parts), func(i int) error {
		made[i], errs[i] = r.link.host.Make(parts[i].size)
		return nil
	})
	for i, x := range made {
		switch {
		case x == nil:
		case errs[i] != nil: // the host would wait for a copy to memory that is not pinned
			errs[i] = errors.Join(errs[i], r.link.host.Give(x))
		default:
			parts[i].host = &piece{Piece: x}
			r.host = append(r.host, parts[i].host)
		}
	}
	return errors.Join(append(errs, full)...)
}

// fitting returns the parts in front that so many bytes have room for.
func fitting(parts []*part, room mem.Bytes) []*part {
	for i, p := range parts {
		if room -= p.size; room < 0 {
			return parts[:i]
		}
	}
	return parts
}

func (r *Region) give(which func(*piece) bool) error {
	var all []*backup.Piece
	r.host = slices.DeleteFunc(r.host, func(x *piece) bool {
		if which(x) {
			all = append(all, x.Piece)
		}
		return which(x)
	})
	if len(all) == 0 {
		return nil
	}
	return r.link.host.Give(all...)
}
