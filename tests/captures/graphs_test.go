package captures

import (
	"slices"

	"stalloc/internal/mem"
)

// capture has a graph made: of what it asks for some is freed in it, some behind it.
func (w *world) capture(p *captured) {
	if len(p.graphs) == 0 && !w.may(w.Capture(p.number)) {
		return
	}
	g := &graph{beside: slices.Clone(p.live)}
	var own []*block
	for range 3 + w.rand.IntN(20) {
		if w.rand.IntN(3) > 0 {
			if b := w.ask(p.number, &p.live, 80*mem.MiB); b != nil {
				if slices.ContainsFunc(g.places, func(x *block) bool { return aliases(x, b) }) {
					w.did.aliases++
				}
				g.places = append(g.places, b)
				own = append(own, b)
			}
		} else if len(own) > 0 {
			i := w.rand.IntN(len(own))
			w.forget(p, own[i])
			own = slices.Delete(own, i, i+1)
		}
	}
	g.state = slices.Clone(p.live)
	for _, b := range own {
		if w.rand.IntN(3) > 0 {
			w.forget(p, b)
		}
	}
	p.graphs = append(p.graphs, g)
	w.did.captures++
}

// forget frees a block of a pool.
func (w *world) forget(p *captured, b *block) {
	w.must(w.Release(b.at))
	p.live = slices.DeleteFunc(p.live, func(x *block) bool { return x == b })
}

// replay writes where a capture had blocks.
func (w *world) replay(p *captured, g *graph) {
	for _, b := range g.places {
		if !slices.Equal(w.behind(b), b.behind) {
			w.t.Errorf("%#x + %v of pool %d has other memory than when it was captured",
				uint64(b.at), b.size, p.number)
		}
		w.must(w.gpu.Use(mem.StreamID(w.rand.IntN(2)), b.at, b.size))
		for _, other := range w.living() {
			lived := slices.Contains(g.beside, other)
			if (other.pool != p.number || lived) && meet(b, other) {
				w.t.Errorf("a replay writes %#x + %v of pool %d, and hits %#x + %v of pool %d",
					uint64(b.at), b.size, p.number, uint64(other.at), other.size, other.pool)
			}
		}
	}
	w.did.replays++
}

// restore makes the live blocks of a pool those of a checkpoint.
func (w *world) restore(p *captured, g *graph) {
	for _, b := range slices.Clone(p.live) {
		if !slices.Contains(g.state, b) {
			w.forget(p, b)
		}
	}
	for _, b := range g.state {
		if slices.Contains(p.live, b) {
			continue
		}
		if err := w.ServeAt(b.stream, p.number, b.size, b.at); err != nil {
			w.t.Errorf("%#x + %v of a checkpoint: %v", uint64(b.at), b.size, err)
			return
		}
		p.live = append(p.live, b)
	}
	w.did.restores++
}

// end drops a graph. With the last one its pool is released.
func (w *world) end(p *captured) {
	i := w.rand.IntN(len(p.graphs))
	if p.graphs = slices.Delete(p.graphs, i, i+1); len(p.graphs) > 0 {
		return
	}
	w.drop(&p.live, len(p.live))
	w.may(w.Trim(p.number))
}
