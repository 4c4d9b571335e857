package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stalloc/internal/mem"
)

// waste is where an allocator's memory is right before it takes the last of what it reserves.
type waste struct {
	event    int       // the one before that
	reserved mem.Bytes // at most
	held     mem.Bytes // before it took the last; what follows is part of it
	load     mem.Bytes
	waiting  mem.Bytes // freed, and not yet done with by other streams
	holes    mem.Bytes // free, or rounding, in segments that hold blocks
	cached   mem.Bytes // in segments without any block
}

// wasteOf looks at a run whose blocks lie in the segments that it holds: native's.
func (l *ledger) wasteOf(r *run) waste {
	w := waste{event: -1}
	for event, reserved := range r.reserved {
		if reserved > w.reserved {
			w.event, w.reserved = event-1, reserved
		}
	}
	if w.event < 0 {
		return w
	}
	w.held, w.load = r.reserved[w.event], l.load[w.event]
	var segments []extent
	for _, e := range r.held {
		if e.begin <= w.event && w.event < e.end {
			segments = append(segments, e)
		}
	}
	slices.SortFunc(segments, func(a, b extent) int { return cmp.Compare(a.from, b.from) })
	used := make([]mem.Bytes, len(segments))
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.begin > w.event || b.end <= w.event {
			continue
		}
		at, found := slices.BinarySearchFunc(segments, r.at[i],
			func(e extent, a mem.Addr) int { return cmp.Compare(e.from, a) })
		if !found {
			at--
		}
		if at < 0 || r.at[i] >= segments[at].to {
			continue
		}
		used[at] += mem.Round(b.size)
		if b.freed <= w.event {
			w.waiting += mem.Round(b.size)
		}
	}
	for i, e := range segments {
		if free := mem.Bytes(e.to-e.from) - used[i]; used[i] > 0 {
			w.holes += free
		} else {
			w.cached += free
		}
	}
	return w
}

// wasted says in two sentences what native wastes, and why.
func (l *ledger) wasted(r *run, capacity mem.Bytes) string {
	if r.result.OOM {
		return fmt.Sprintf("PyTorch's native allocator does not fit in %v: it is full in %s.",
			capacity, l.steps[l.stepAt(l.blocks[r.result.Requests-1].begin)].Name)
	}
	w, need := l.wasteOf(r), l.load[l.peak]
	over := w.reserved - need
	if float64(over) <= noDifference*float64(need) || w.load == w.held {
		return fmt.Sprintf("PyTorch's native allocator wastes next to nothing: it reserves %v at most, for %v of tensors.", w.reserved, need)
	}
	free := w.held - w.load
	var parts []string
	for _, p := range []struct {
		bytes mem.Bytes
		where string
	}{
		{w.holes, "in gaps between blocks"},
		{w.cached, "in cached segments without a block"},
		{w.waiting, "in freed blocks that other streams may still use"},
	} {
		if p.bytes >= max(free/100, 1) {
			parts = append(parts, fmt.Sprintf("%v %s", p.bytes, p.where))
		}
	}
	return fmt.Sprintf("On a device of %v, PyTorch's native allocator reserves %v, %v more than tensors need at their peak: %.1f %% is wasted. When it last took more, in %s, it had %v free, of which no piece would do: %s.",
		capacity, w.reserved, over, 100*float64(over)/float64(w.reserved),
		l.steps[l.stepAt(w.event+1)].Name, free, strings.Join(parts, ", "))
}
