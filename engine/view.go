package engine

import "stalloc/internal/mem"

// A page is 2 MiB of the window. handle and next link it into the list of the
// pages that map the same handle; view says whose it is; root is the treap of the
// runs that start in it.
type page struct {
	handle uint32 // zero: not mapped
	view   uint32
	next   uint32 // the next page that maps the same handle; zero: none
	root   uint32
}

// A view is a range of pages over distinct handles of one heap. Pages
// [base, base+n) have been mapped at some time; the room up to base+room is
// reserved for growth. A page whose handle has moved to another heap sleeps: it
// stays mapped and holds no free bytes.
type view struct {
	heap       uint32 // zero: the number is not in use
	list       uint32
	base       uint32
	n          uint32
	room       uint32 // pages it may grow to
	class      uint8  // its extent has 1<<class pages
	big        bool   // private: of a big block
	lost       bool   // something is still mapped in its room: its extent is not used again
	blocks     int    // live and pending blocks handed out at its addresses
	free       int    // pages whose handle is wholly free and awake
	fence      uint64 // private: recorded when its block was freed; zero: none outstanding
	dirty      bool   // private: work that used its addresses may be pending
	used       uint64 // the clock when a block was last placed in it or freed from it
	next, prev uint32 // in the heap's list
}

func (v *view) end() unit   { return unit(v.base+v.n) << pageShift }
func (v *view) start() unit { return unit(v.base) << pageShift }

// openView reserves a view of heap h with room for at least pages; zero if the
// window is used up.
func (e *Engine) openView(h, list, pages uint32) uint32 {
	base, class, ok := e.extents.get(pages)
	if !ok {
		return 0
	}
	room := uint32(1) << class
	for uint32(len(e.pages)) <= base+room {
		e.pages = append(e.pages, page{})
	}
	var x uint32
	if n := len(e.spareViews); n > 0 {
		x = e.spareViews[n-1]
		e.spareViews = e.spareViews[:n-1]
	} else {
		e.views = append(e.views, view{})
		x = uint32(len(e.views) - 1)
	}
	head := &e.heaps[h].views[list]
	e.views[x] = view{heap: h, list: list, base: base, room: room, class: class, next: *head, used: e.clock}
	if *head != 0 {
		e.views[*head].prev = x
	}
	*head = x
	e.stats.Views++
	return x
}

// closeView forgets a view without mapped pages. The caller decides when its
// extent may be used again.
func (e *Engine) closeView(x uint32) {
	v := &e.views[x]
	for i := range e.preparing { // its number may soon be another view's
		if p := &e.preparing[i]; p.view == x {
			p.slots, p.picks = p.slots[:0], p.picks[:0]
		}
	}
	if v.fence != 0 {
		e.fenceAt.del(v.fence)
	}
	if v.next != 0 {
		e.views[v.next].prev = v.prev
	}
	if v.prev != 0 {
		e.views[v.prev].next = v.next
	} else {
		e.heaps[v.heap].views[v.list] = v.next
	}
	*v = view{}
	e.spareViews = append(e.spareViews, x)
	e.stats.Views--
}

// mapPages maps the handles in picks at the pages in slots of a view: the state
// after the driver will have done so. Their free bytes become part of its runs.
func (e *Engine) mapPages(x uint32, slots, picks []uint32) {
	v := &e.views[x]
	e.stats.Mapped += len(picks)
	for i, c := range picks {
		p := slots[i]
		e.pages[p].handle, e.pages[p].view = c, x
		v.n = max(v.n, p-v.base+1)
	}
	for i := 0; i < len(picks); {
		p := slots[i]
		if e.handles[picks[i]].used != 0 {
			e.showFree(p)
			e.link(p)
			i++
			continue
		}
		j := i
		for ; j < len(picks) && slots[j] == p+uint32(j-i) && e.handles[picks[j]].used == 0; j++ {
			e.link(slots[j])
		}
		e.views[x].free += j - i
		e.runGive(x, unit(p)<<pageShift, unit(p+uint32(j-i))<<pageShift)
		i = j
	}
}

// link puts a mapped page first in the list of its handle's pages.
func (e *Engine) link(p uint32) {
	c := &e.handles[e.pages[p].handle]
	e.pages[p].next = c.alias
	c.alias = p
	c.aliases++
	if e.views[e.pages[p].view].big {
		c.big++
	}
}

// showFree gives page p, not linked yet, the free bytes of its partly used
// handle, read from the runs of another page that maps it.
func (e *Engine) showFree(p uint32) {
	c := &e.handles[e.pages[p].handle]
	q := c.alias
	for e.views[e.pages[q].view].heap != c.heap {
		q = e.pages[q].next
	}
	from, to := unit(q)<<pageShift, unit(p)<<pageShift
	for hi := from + pageUnits; hi > from; {
		r := e.locate(hi - 1)
		if r == 0 || e.runs[r].end() <= from {
			return
		}
		lo := max(e.runs[r].start(), from)
		hi = min(e.runs[r].end(), hi)
		e.runGive(e.pages[p].view, lo-from+to, hi-from+to)
		hi = lo
	}
}

// hideFree takes the free bytes of page p out of its view's runs.
func (e *Engine) hideFree(p uint32) {
	from := unit(p) << pageShift
	for hi := from + pageUnits; hi > from; {
		r := e.locate(hi - 1)
		if r == 0 || e.runs[r].end() <= from {
			return
		}
		lo := max(e.runs[r].start(), from)
		e.runTake(e.pages[p].view, lo, min(e.runs[r].end(), hi))
		hi = lo
	}
}

// unmapPage undoes the mapping of one page. A view whose last pages go can use
// their addresses again.
func (e *Engine) unmapPage(p uint32) {
	x, c := e.pages[p].view, e.pages[p].handle
	v := &e.views[x]
	if v.heap == e.handles[c].heap {
		e.hideFree(p)
		if e.handles[c].used == 0 {
			v.free--
		}
	}
	at := &e.handles[c].alias
	for *at != p {
		at = &e.pages[*at].next
	}
	*at = e.pages[p].next
	e.handles[c].aliases--
	if v.big {
		e.handles[c].big--
	}
	e.pages[p].handle, e.pages[p].next = 0, 0
	e.stats.Mapped--
	for v.n > 0 && e.pages[v.base+v.n-1].handle == 0 {
		v.n--
	}
}

// adopt moves a wholly free handle to heap h: its pages in the old heap's views
// fall asleep, those it may have in the new one's wake up.
func (e *Engine) adopt(x, h uint32) {
	c := &e.handles[x]
	for p := c.alias; p != 0; p = e.pages[p].next {
		if e.views[e.pages[p].view].heap == c.heap {
			e.hideFree(p)
			e.views[e.pages[p].view].free--
		}
	}
	e.delist(x)
	e.heaps[c.heap].handles--
	c.heap = h
	e.heaps[h].handles++
	e.enlist(x)
	for p := c.alias; p != 0; p = e.pages[p].next {
		if v := e.pages[p].view; e.views[v].heap == h {
			e.views[v].free++
			e.runGive(v, unit(p)<<pageShift, unit(p+1)<<pageShift)
		}
	}
	e.stats.Adopted++
}

// tail returns the length of the free run that ends where the view ends.
func (e *Engine) tail(x uint32) unit {
	v := &e.views[x]
	if v.n == 0 {
		return 0
	}
	r := e.locate(v.end() - 1)
	if r == 0 || e.runs[r].view != x || e.runs[r].end() != v.end() {
		return 0
	}
	return e.runs[r].size()
}

func (e *Engine) addr(at unit) mem.Addr {
	return e.cfg.Base + mem.Addr(at)*mem.Addr(mem.Grain)
}
