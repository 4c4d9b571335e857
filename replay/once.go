package replay

import (
	"slices"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// once tells of the memory behind addresses, each byte at one place, so that what is told
// adds up to what is reserved. What is mapped twice, for a stitched block, is told of where
// that block lies, and while it does not, where it was mapped first. A nil once tells nobody.
type once struct {
	tell   func(at mem.Addr, size mem.Bytes, held bool)
	mapped map[driver.Handle][]mem.Addr
	behind map[mem.Addr]mapping // by where it begins
}

type mapping struct {
	handle driver.Handle
	size   mem.Bytes
}

func newOnce(tell func(at mem.Addr, size mem.Bytes, held bool)) *once {
	if tell == nil {
		return nil
	}
	return &once{tell, make(map[driver.Handle][]mem.Addr), make(map[mem.Addr]mapping)}
}

// held is what the simulated device calls, nil for a nil once.
func (o *once) held() func(mem.Addr, mem.Bytes, driver.Handle, bool) {
	if o == nil {
		return nil
	}
	return func(at mem.Addr, size mem.Bytes, h driver.Handle, held bool) {
		first := len(o.mapped[h]) == 0 || o.mapped[h][0] == at
		switch {
		case held:
			o.behind[at] = mapping{h, size}
			o.mapped[h] = append(o.mapped[h], at)
		default:
			delete(o.behind, at)
			o.mapped[h] = slices.DeleteFunc(o.mapped[h], func(a mem.Addr) bool { return a == at })
		}
		if !first {
			return
		}
		if o.tell(at, size, held); !held && len(o.mapped[h]) > 0 {
			o.tell(o.mapped[h][0], size, true)
		}
	}
}

// used says that a block came to lie at an address, or left it.
func (o *once) used(at mem.Addr, size mem.Bytes, live bool) {
	if o == nil || size == 0 {
		return
	}
	const page = mem.Addr(mem.HandleSize)
	end := at + mem.Addr(mem.Round(size))
	begin := at &^ (page - 1)
	for back := 0; o.behind[begin].size == 0 && back < mostPages; back++ {
		begin -= page
	}
	for begin < end {
		m, ok := o.behind[begin]
		if !ok {
			return // nothing that the device has told of
		}
		from, to := max(begin, at), min(begin+mem.Addr(m.size), end)
		if home := o.mapped[m.handle][0] + from - begin; home != from {
			gone, got := home, from
			if !live {
				gone, got = from, home
			}
			o.tell(gone, mem.Bytes(to-from), false)
			o.tell(got, mem.Bytes(to-from), true)
		}
		begin += mem.Addr(m.size)
	}
}

// mostPages is how many pages a handle has at most, with room to spare.
const mostPages = 64
