package dsa

import (
	"cmp"
	"fmt"
	"slices"

	"stalloc/internal/mem"
)

// taken is bytes that a buffer takes for a time.
type taken struct {
	buffer       int
	lower, upper mem.Tick
	from, to     mem.Bytes // addresses
}

// Check reports the first thing that is wrong with offsets for a problem: two buffers that share a
// byte while both live, one that is not where it is pinned, not aligned, or ends above the
// capacity. It sweeps over time, and takes time in proportion to the buffers times those that live
// at once.
func Check(p *Problem, offsets []mem.Offset) error {
	if len(offsets) != len(p.Buffers) {
		return fmt.Errorf("%d offsets for %d buffers", len(offsets), len(p.Buffers))
	}
	for i, at := range offsets {
		b := p.Buffers[i]
		switch end := mem.Bytes(at) + b.Size; {
		case at < 0 || at > mostBytes || mem.Bytes(at)%p.align(i) != 0:
			return fmt.Errorf("buffer %d lies at %d, which is no multiple of %d from 0 to 2^60", i,
				int64(at), int64(p.align(i)))
		case p.Capacity > 0 && end > p.Capacity && !b.Empty():
			return fmt.Errorf("buffer %d ends at %d, above the capacity of %d", i, int64(end),
				int64(p.Capacity))
		}
	}
	for _, pin := range p.Pins {
		if offsets[pin.Buffer] != pin.At {
			return fmt.Errorf("buffer %d lies at %d, and is pinned at %d", pin.Buffer,
				int64(offsets[pin.Buffer]), int64(pin.At))
		}
	}
	return sweep(p.takes(offsets))
}

// takes lists all that the buffers take.
func (p *Problem) takes(offsets []mem.Offset) []taken {
	all := make([]taken, 0, len(p.Buffers)+2*len(p.Gaps))
	add := func(i int, lower, upper mem.Tick, from, to mem.Bytes) {
		if lower < upper && from < to {
			all = append(all, taken{i, lower, upper, mem.Bytes(offsets[i]) + from,
				mem.Bytes(offsets[i]) + to})
		}
	}
	gaps := p.sortedGaps()
	for i, b := range p.Buffers {
		at := b.Lower
		for ; len(gaps) > 0 && gaps[0].Buffer == i; gaps = gaps[1:] {
			add(i, at, gaps[0].Lower, 0, b.Size)
			add(i, gaps[0].Lower, gaps[0].Upper, gaps[0].From, gaps[0].To)
			at = gaps[0].Upper
		}
		add(i, at, b.Upper, 0, b.Size)
	}
	return all
}

// sweep keeps what is taken now in the order of addresses: neighbours may not overlap.
func sweep(all []taken) error {
	starts, ends := make([]int32, len(all)), make([]int32, len(all))
	for i := range all {
		starts[i], ends[i] = int32(i), int32(i)
	}
	slices.SortFunc(starts, func(a, b int32) int { return cmp.Compare(all[a].lower, all[b].lower) })
	slices.SortFunc(ends, func(a, b int32) int { return cmp.Compare(all[a].upper, all[b].upper) })
	type span struct {
		from, to mem.Bytes
		of       int32
	}
	var now []span
	place := func(from mem.Bytes) int {
		k, _ := slices.BinarySearchFunc(now, from,
			func(s span, from mem.Bytes) int { return cmp.Compare(s.from, from) })
		return k
	}
	for _, i := range starts {
		x := all[i]
		for ; all[ends[0]].upper <= x.lower; ends = ends[1:] {
			k := place(all[ends[0]].from)
			now = slices.Delete(now, k, k+1)
		}
		k := place(x.from)
		for _, n := range []int{k - 1, k} {
			if n >= 0 && n < len(now) && now[n].from < x.to && x.from < now[n].to {
				y := all[now[n].of]
				return fmt.Errorf("buffers %d and %d overlap: at [%d, %d) in [%d, %d), and at [%d, %d) in [%d, %d)", y.buffer, x.buffer,
					int64(y.from), int64(y.to), y.lower, y.upper, int64(x.from), int64(x.to),
					x.lower, x.upper)
			}
		}
		now = slices.Insert(now, k, span{x.from, x.to, i})
	}
	return nil
}
