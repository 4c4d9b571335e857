package engine

import (
	"slices"

	"stalloc/internal/mem"
)

// Preparing an arena. Access rights cost the driver some 27 µs a handle, a third
// of a second for an arena of 22 GiB: too much to pay at one step boundary. But a
// handle may be mapped a second time while it is in use. So the handles that lie
// free at one boundary, and will lie free again at the next, are mapped into the
// arena's view in between, a few at a time, while the pool goes on using them. The
// arena that is asked for then finds its pages mapped; those whose handles are not
// free after all are replaced (see reuseArena).

// preparation is the work left for one heap.
type preparation struct {
	heap, view uint32
	slots      []uint32
	picks      []uint32
}

// prepare maps at most ev.Most more pages; ev.Size not 0 begins anew for an arena
// of that size. No operation means that nothing is left to do.
func (e *Engine) prepare(ev Event, out []Op) []Op {
	h := e.heapFor(ev.Stream, ev.Pool)
	at := slices.IndexFunc(e.preparing, func(p preparation) bool { return p.heap == h })
	if ev.Size > 0 {
		if at < 0 {
			e.preparing = append(e.preparing, preparation{heap: h})
			at = len(e.preparing) - 1
		}
		e.selectPages(&e.preparing[at], uint32(mem.Handles(ev.Size)))
	}
	if at < 0 {
		return out
	}
	p := &e.preparing[at]
	e.slots, e.picks = e.slots[:0], e.picks[:0]
	for len(p.slots) > 0 && len(e.slots) < ev.Most {
		slot, x := p.slots[0], p.picks[0]
		p.slots, p.picks = p.slots[1:], p.picks[1:]
		// The handle may have gone, or come into the view, since it was chosen.
		if e.handles[x].heap == h && e.views[p.view].heap == h && e.pages[slot].handle == 0 && !e.maps(p.view, x) {
			e.slots, e.picks = append(e.slots, slot), append(e.picks, x)
		}
	}
	if len(e.slots) == 0 {
		e.preparing = slices.Delete(e.preparing, at, at+1)
		return out
	}
	e.act = action{phase: phasePrepare, view: p.view, maps: len(e.slots)}
	for i, x := range e.picks {
		out = append(out, Op{Kind: OpMap, Addr: e.addr(unit(e.slots[i]) << pageShift), Handle: Index(x), Size: mem.HandleSize})
	}
	out = e.ranges(OpAccess, e.slots, out)
	e.stats.Maps += uint64(len(e.slots))
	e.mapPages(p.view, e.slots, e.picks)
	return out
}

// selectPages pairs the unmapped pages of the arena's view with free handles.
func (e *Engine) selectPages(p *preparation, pages uint32) {
	p.slots, p.picks, p.view = p.slots[:0], p.picks[:0], 0
	for x := e.heaps[p.heap].views[arenaViews]; x != 0; x = e.views[x].next {
		if v := &e.views[x]; !v.lost && 1<<v.class >= pages {
			p.view = x
		}
	}
	if p.view == 0 {
		if p.view = e.openView(p.heap, arenaViews, pages+pages/2); p.view == 0 {
			return
		}
	}
	v := &e.views[p.view]
	for x := e.heaps[p.heap].free; x != 0; x = e.handles[x].link[prefix].next {
		if v.free == 0 || !e.maps(p.view, x) {
			p.picks = append(p.picks, x)
		}
	}
	slices.Sort(p.picks)
	for i := v.base; i < v.base+pages && len(p.slots) < len(p.picks); i++ {
		if e.pages[i].handle == 0 {
			p.slots = append(p.slots, i)
		}
	}
	p.picks = p.picks[:len(p.slots)]
}

// unprepare keeps what the failed batch did map, without rights to use it, and
// gives up the view: nothing was ever placed in it.
func (e *Engine) unprepare(at int) {
	for i := e.act.maps - 1; i >= min(at, e.act.maps); i-- {
		e.unmapPage(e.slots[i])
		e.stats.Maps--
	}
	e.views[e.act.view].lost = true
	e.act.phase = phaseNone
	e.preparing = slices.DeleteFunc(e.preparing, func(p preparation) bool { return p.view == e.act.view })
}
