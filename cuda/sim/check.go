package sim

import (
	"errors"
	"fmt"

	"stalloc/internal/mem"
)

// Check recounts the whole state and reports every equation of the package
// comment that does not hold.
func (d *Device) Check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(d.checkHandles(), d.checkPending())
}

func (d *Device) checkHandles() error {
	var errs []error
	maps := make([]int32, len(d.handles.list))
	for _, r := range d.reserved.spans {
		mapped := 0
		for i, p := range r.data.pages {
			if p.handle == 0 {
				if p != (page{}) {
					errs = append(errs, fmt.Errorf("page %d at %#x is unmapped but not empty: %+v",
						i, uint64(r.addr), p))
				}
				continue
			}
			if p.part == 0 {
				mapped++
				maps[p.handle-1]++
			}
			if !d.continues(r.data.pages, i) {
				errs = append(errs, fmt.Errorf("page %d at %#x is part %d of handle %d, which is not mapped whole", i, uint64(r.addr), p.part, p.handle))
			}
		}
		if mapped != r.data.mapped {
			errs = append(errs, fmt.Errorf("reservation %#x counts %d mapped handles, has %d",
				uint64(r.addr), r.data.mapped, mapped))
		}
	}
	held, resident := 0, mem.Bytes(0)
	for i, h := range d.handles.list {
		if h.maps != maps[i] {
			errs = append(errs, fmt.Errorf("handle %d counts %d mappings, has %d", i+1, h.maps,
				maps[i]))
		}
		if h.held {
			held++
		}
		if h.held || maps[i] > 0 {
			resident += h.size
		}
	}
	if held != d.handles.held || resident != d.handles.resident ||
		mem.Bytes(held)*mem.HandleSize > resident {
		errs = append(errs, fmt.Errorf("counted %d handles held and %v resident, have %d and %v",
			d.handles.held, d.handles.resident, held, resident))
	}
	if d.used() > d.cfg.Capacity || d.used() > d.peak {
		errs = append(errs, fmt.Errorf("%v in use of %v, peak %v", d.used(), d.cfg.Capacity,
			d.peak))
	}
	return errors.Join(errs...)
}

// continues reports whether the pages beside a mapped one are the parts of its handle
// before and behind it, as far as it has such.
func (d *Device) continues(pages []page, i int) bool {
	p := pages[i]
	if p.part > 0 && (i == 0 || pages[i-1].handle != p.handle || pages[i-1].part != p.part-1) {
		return false
	}
	last := mem.Bytes(p.part+1)*mem.HandleSize == d.handles.list[p.handle-1].size
	return last || i+1 < len(pages) && pages[i+1].handle == p.handle && pages[i+1].part == p.part+1
}

func (d *Device) checkPending() error {
	want := map[mem.Addr]int{} // page -> uses
	for _, s := range d.streams {
		for _, u := range s.uses {
			first := mem.Bytes(u.addr) &^ (mem.HandleSize - 1)
			for at := first; at < mem.Bytes(u.addr)+u.size; at += mem.HandleSize {
				want[mem.Addr(at)]++
			}
		}
	}
	var errs []error
	compare := func(addr mem.Addr, have int) {
		if want[addr] != have {
			errs = append(errs, fmt.Errorf("%#x counts %d pending uses, has %d", uint64(addr), have,
				want[addr]))
		}
	}
	for _, r := range d.reserved.spans {
		for i, p := range r.data.pages {
			compare(r.addr+mem.Addr(i)*mem.Addr(mem.HandleSize), int(p.pending))
		}
	}
	return errors.Join(errs...)
}
