package trace

import (
	"fmt"

	"stalloc/internal/mem"
)

// Growth makes up the run of any size of a program from recordings of two sizes, of its batch
// or its sequence: the same requests in the same order, each with the size that a line through
// the two gives, and frees where the larger one has them.
type Growth struct {
	large          *Trace
	from, to       float64
	sizes, smaller []mem.Bytes // of requests, in order
	micros, before int64       // from the first event to the last
}

// Grow prepares to make up runs from those of two sizes, the smaller one first. It fails where
// they do not make the same number of requests on the same streams in each step.
func Grow(small, large *Trace, from, to float64) (*Growth, error) {
	g := &Growth{large: large, from: from, to: to}
	steps, streams := [2][]int{}, [2][]mem.StreamID{}
	for i, tr := range []*Trace{small, large} {
		sizes := []mem.Bytes{}
		var last int64
		for _, s := range append(tr.Steps(), [2]int{0, len(tr.Events)}) { // the whole of it last
			n := 0
			for _, e := range tr.Events[s[0]:s[1]] {
				if e.Kind == Alloc {
					n++
				}
			}
			steps[i] = append(steps[i], n)
		}
		for _, e := range tr.Events {
			if e.Kind == Alloc {
				sizes, streams[i] = append(sizes, e.Size), append(streams[i], e.Stream)
			}
			last = max(last, e.Micros)
		}
		if i == 0 {
			g.smaller, g.before = sizes, last
		} else {
			g.sizes, g.micros = sizes, last
		}
	}
	if len(steps[0]) != len(steps[1]) {
		return nil, fmt.Errorf("one has %d steps, the other %d", len(steps[0])-1, len(steps[1])-1)
	}
	for i, n := range steps[0] {
		if n != steps[1][i] {
			return nil, fmt.Errorf("the step with number %d makes %d requests in one and %d in the other", i, n, steps[1][i])
		}
	}
	for i, stream := range streams[0] {
		if stream != streams[1][i] {
			return nil, fmt.Errorf("request %d is on stream %d in one and %d in the other", i,
				stream, streams[1][i])
		}
	}
	return g, nil
}

// At makes up the run of a size. What does not grow from the smaller to the larger run stays as
// it is in the larger one; time is a line as well.
func (g *Growth) At(size float64) *Trace {
	// share is 0 at the smaller size and 1 at the larger.
	share := (size - g.from) / (g.to - g.from)
	line := func(small, large float64) float64 { return max(small+share*(large-small), 0) }
	tr := *g.large
	tr.Events = make([]Event, len(g.large.Events))
	pace := 1.0
	if g.micros > 0 && g.micros > g.before {
		pace = line(float64(g.before), float64(g.micros)) / float64(g.micros)
	}
	at := 0
	for i, e := range g.large.Events {
		if e.Kind == Alloc {
			if small, large := g.smaller[at], g.sizes[at]; large > small {
				e.Size = mem.Bytes(min(line(float64(small), float64(large)), float64(maxSize)))
			}
			at++
		}
		e.Micros = int64(float64(e.Micros) * pace)
		tr.Events[i] = e
	}
	return &tr
}
