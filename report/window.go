package report

import (
	"cmp"
	"slices"
	"sort"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// Curve is the load and what each allocator held, the largest of every bucket of events.
type Curve struct {
	Every    int // events a bucket
	Micros   []int
	Load     []int   // in grains, as everything here
	Reserved [][]int // by allocator
}

// maxBuckets bounds a curve: some twenty for each pixel of a wide screen.
const maxBuckets = 40_000

func (l *ledger) curve(runs []*run) Curve {
	n := len(l.load)
	c := Curve{Every: (n + maxBuckets - 1) / maxBuckets, Reserved: make([][]int, len(runs))}
	largest := func(values []mem.Bytes) []int {
		var out []int
		for i := 0; i < n; i += c.Every {
			most := mem.Bytes(0)
			for _, v := range values[i:min(i+c.Every, n)] {
				most = max(most, v)
			}
			out = append(out, int(most/mem.Grain))
		}
		return out
	}
	c.Load = largest(l.load)
	for i, r := range runs {
		c.Reserved[i] = largest(r.reserved)
	}
	for i := 0; i < n; i += c.Every {
		c.Micros = append(c.Micros, int(l.micros[i]))
	}
	return c
}

// Window is the part of the recording whose blocks are drawn: columns by block, in the
// order of their requests, but for Micros, which is by event from Begin on.
type Window struct {
	Begin, End int
	Micros     []int
	From, Life []int // events; a life of 0 does not end
	Size       []int // as asked for, in bytes
	Stream     []int
	Phase      []int
	Stack      []int // number of the stack behind one, 0 for none; nil where none has one
	Served     []int // by reason
	Maps       []Map // by allocator
}

// Map is where an allocator put the blocks, heights in grains. It is empty for one whose
// addresses are not memory.
type Map struct {
	Height mem.Bytes
	Place  []int // by block
	// What had memory: from one height to another, by events.
	HeldLow, HeldSize, HeldBegin, HeldLife []int
}

// window chooses the steps to draw, and packs their blocks.
func (l *ledger) window(stacks *trace.Stacks, runs []*run, why []reason, most int) Window {
	begin, end := l.around(most)
	w := Window{Begin: begin, End: end, Maps: make([]Map, len(runs))}
	for _, t := range l.micros[begin:end] {
		w.Micros = append(w.Micros, int(t))
	}
	spaces := make([]*space, len(runs))
	for i, r := range runs {
		if r.held != nil {
			spaces[i] = newSpace(r.held, l.extents(r.at), begin, end)
			w.Maps[i] = spaces[i].background(r.held, begin, end)
		}
	}
	streams := make(map[mem.StreamID]int)
	for i := range l.blocks {
		b := &l.blocks[i]
		if b.end < begin || b.begin >= end {
			continue
		}
		if _, ok := streams[b.stream]; !ok {
			streams[b.stream] = len(streams)
		}
		life := b.end - b.begin
		if b.end == len(l.load) {
			life = 0
		}
		w.From, w.Life, w.Size = append(w.From, b.begin), append(w.Life, life), append(w.Size,
			int(b.size))
		w.Stream, w.Phase = append(w.Stream, streams[b.stream]), append(w.Phase, b.phase)
		w.Served = append(w.Served, int(why[i]))
		if stacks != nil {
			w.Stack = append(w.Stack, stacks.Of(b.id)+1)
		}
		for k, s := range spaces {
			if s != nil {
				w.Maps[k].Place = append(w.Maps[k].Place, s.height(runs[k].at[i]))
			}
		}
	}
	return w
}

// extents lists where the blocks lay, and when.
func (l *ledger) extents(at []mem.Addr) []extent {
	all := make([]extent, len(l.blocks))
	for i := range l.blocks {
		b := &l.blocks[i]
		all[i] = extent{at[i], at[i] + mem.Addr(mem.Round(b.size)), b.begin, b.end}
	}
	return all
}

// background lists what had memory in the window.
func (s *space) background(held []extent, begin, end int) Map {
	m := Map{Height: s.high}
	slices.SortFunc(held, func(a, b extent) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin),
			cmp.Compare(a.from, b.from))
	})
	for _, e := range held {
		if e.end < begin || e.begin >= end {
			continue
		}
		m.HeldLow = append(m.HeldLow, s.height(e.from))
		m.HeldSize = append(m.HeldSize, int(mem.Bytes(e.to-e.from)/mem.Grain))
		m.HeldBegin = append(m.HeldBegin, e.begin)
		m.HeldLife = append(m.HeldLife, e.end-e.begin)
	}
	return m
}

// around returns the events of the peak's step and of as many steps beside it as have at
// most so many blocks together: those after it first, then those before.
func (l *ledger) around(most int) (begin, end int) {
	if len(l.blocks) <= most {
		return 0, len(l.of)
	}
	ends := make([]int, len(l.blocks))
	for i := range l.blocks {
		ends[i] = l.blocks[i].end
	}
	slices.Sort(ends)
	count := func(begin, end int) int {
		begun := sort.Search(len(l.blocks), func(i int) bool { return l.blocks[i].begin >= end })
		gone, _ := slices.BinarySearch(ends, begin)
		return begun - gone
	}
	first := l.stepAt(l.peak)
	last := first
	for {
		grown := false
		if last+1 < len(l.steps) && count(l.steps[first].Begin, l.steps[last+1].End) <= most {
			last, grown = last+1, true
		}
		if first > 0 && count(l.steps[first-1].Begin, l.steps[last].End) <= most {
			first, grown = first-1, true
		}
		if !grown {
			return l.steps[first].Begin, l.steps[last].End
		}
	}
}
