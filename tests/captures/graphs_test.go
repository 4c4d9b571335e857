package captures

import (
	"slices"

	"stalloc/internal/mem"
)

// capture has a graph made: of what it asks for some is freed in it, some behind it.
func (r *run) capture(p *captured) {
	if len(p.graphs) == 0 && !r.may(r.Capture(p.number)) {
		return
	}
	g := &graph{beside: slices.Clone(p.live)}
	var own []*block
	for range 3 + r.rand.IntN(20) {
		if r.rand.IntN(3) > 0 {
			if b := r.request(p.number, &p.live, 80*mem.MiB); b != nil {
				if slices.ContainsFunc(g.places, func(x *block) bool { return aliases(x, b) }) {
					r.did.aliases++
				}
				g.places = append(g.places, b)
				own = append(own, b)
			}
		} else if len(own) > 0 {
			i := r.rand.IntN(len(own))
			r.free(p, own[i])
			own = slices.Delete(own, i, i+1)
		}
	}
	g.state = slices.Clone(p.live)
	for _, b := range own {
		if r.rand.IntN(3) > 0 {
			r.free(p, b)
		}
	}
	p.graphs = append(p.graphs, g)
	r.did.captures++
}

// free frees a block of a pool.
func (r *run) free(p *captured, b *block) {
	r.must(r.Release(b.at))
	p.live = slices.DeleteFunc(p.live, func(x *block) bool { return x == b })
}

// replay writes where a capture had blocks.
func (r *run) replay(p *captured, g *graph) {
	for _, b := range g.places {
		if !slices.Equal(r.behind(b), b.behind) {
			r.t.Errorf("%#x + %v of pool %d has other memory than when it was captured",
				uint64(b.at), b.size, p.number)
		}
		r.must(r.gpu.Use(mem.StreamID(r.rand.IntN(2)), b.at, b.size))
		for _, other := range r.living() {
			lived := slices.Contains(g.beside, other)
			if (other.pool != p.number || lived) && meet(b, other) {
				r.t.Errorf("a replay writes %#x + %v of pool %d, and hits %#x + %v of pool %d",
					uint64(b.at), b.size, p.number, uint64(other.at), other.size, other.pool)
			}
		}
	}
	r.did.replays++
}

// restore makes the live blocks of a pool those of a checkpoint.
func (r *run) restore(p *captured, g *graph) {
	for _, b := range slices.Clone(p.live) {
		if !slices.Contains(g.state, b) {
			r.free(p, b)
		}
	}
	for _, b := range g.state {
		if slices.Contains(p.live, b) {
			continue
		}
		if err := r.ServeAt(b.stream, p.number, b.size, b.at); err != nil {
			r.t.Errorf("%#x + %v of a checkpoint: %v", uint64(b.at), b.size, err)
			return
		}
		p.live = append(p.live, b)
	}
	r.did.restores++
}

// end drops a graph. With the last one its pool is released.
func (r *run) end(p *captured) {
	i := r.rand.IntN(len(p.graphs))
	if p.graphs = slices.Delete(p.graphs, i, i+1); len(p.graphs) > 0 {
		return
	}
	r.drop(&p.live, len(p.live))
	r.may(r.Trim(p.number))
}
