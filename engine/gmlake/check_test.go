package gmlake

import (
	"testing"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// TestCheckFinds breaks one thing at a time in a pool that has a bit of
// everything, and Check notices.
func TestCheckFinds(t *testing.T) {
	sound := func() *Pool {
		cfg := DefaultConfig()
		cfg.FragLimit = 0
		d := newDevice(cfg)
		var reqs []uint64
		for i, size := range []mem.Bytes{12 * mem.MiB, 14 * mem.MiB, 5000, 26 * mem.MiB,
			4 * mem.MiB} {
			req := uint64(i + 1)
			if err := d.step(engine.Event{Kind: engine.EvAlloc, Req: req,
				Asked: size}); err != nil {
				t.Fatal(err)
			}
			if reqs = append(reqs, req); i == 1 || i == 3 { // the fourth is stitched
				for _, r := range reqs {
					if err := d.free(r); err != nil {
						t.Fatal(err)
					}
				}
				reqs = nil
			}
		}
		if err := d.pool.Check(); err != nil || d.pool.Stats().Stitches != 1 {
			t.Fatalf("%v, %+v", err, d.pool.Stats())
		}
		return d.pool
	}
	for name, spoil := range map[string]func(*Pool){
		"a block's size":          func(p *Pool) { p.blocks[p.segments[0].first].size -= pageSize },
		"a chunk's owner":         func(p *Pool) { p.chunks[0].owner = none },
		"a chunk's handle":        func(p *Pool) { p.chunks[0].handle = p.chunks[1].handle },
		"a mapping forgotten":     func(p *Pool) { p.chunks[0].over = nil },
		"an sBlock's free chunks": func(p *Pool) { p.stitches[0].free++ },
		"an sBlock ready":         func(p *Pool) { p.stitches[0].ready = !p.stitches[0].ready },
		"an sBlock's use":         func(p *Pool) { p.stitches[0].used++ },
		"a free block unlisted":   func(p *Pool) { p.heaps[0].free[large] = set{} },
		"the order of a set": func(p *Pool) {
			e := p.heaps[0].free[large].entries
			e[0],
				e[1] = e[1], e[0]
		},
		"an unmapped handle in use": func(p *Pool) {
			p.unmapped = append(p.unmapped,
				p.chunks[0].handle)
		},
		"a number freed": func(p *Pool) {
			p.numbers = append(p.numbers,
				p.chunks[0].handle)
		},
		"a block not found":      func(p *Pool) { clear(p.at) },
		"the load":               func(p *Pool) { p.stats.Load += mem.Grain },
		"the mapped pages":       func(p *Pool) { p.stats.Mapped-- },
		"the stitched addresses": func(p *Pool) { p.virtual++ },
		"the doomed sBlocks":     func(p *Pool) { p.doomed++ },
	} {
		p := sound()
		spoil(p)
		if err := p.Check(); err == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}
