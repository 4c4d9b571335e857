package captures

import (
	"errors"
	"slices"
	"strings"

	"stalloc/actors/pool"
	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

func (r *run) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Error(err)
	}
}

// may is must of what may fail where driver calls do.
func (r *run) may(err error) bool {
	r.t.Helper()
	if err != nil && r.faults.each == 0 {
		r.t.Error(err)
	}
	return err == nil
}

func (r *run) play(n int) {
	for range n {
		if r.step(); r.t.Failed() {
			return
		}
	}
	r.faults.suppress(true)
	r.wake()
	for i := range r.pools {
		p := &r.pools[i]
		r.drop(&p.live, len(p.live))
		p.graphs = nil
		r.must(r.Trim(p.number))
	}
	r.open()
	r.drop(&r.region.live, len(r.region.live))
	r.drop(&r.eager, len(r.eager))
	r.finish()
	r.must(errors.Join(r.Trim(engine.Released), r.Trim(0), r.Check()))
	if used := r.gpu.Used(); used > 0 {
		r.t.Errorf("all is freed, and %v are held", used)
	}
	r.must(errors.Join(append(r.gpu.Violations(), r.Close())...))
}

func (r *run) finish() {
	r.gpu.Finish(0)
	r.gpu.Finish(1)
}

func (r *run) step() {
	p := &r.pools[r.rand.IntN(len(r.pools))]
	switch dice := r.rand.IntN(100); {
	case dice < 30:
		r.request(0, &r.eager, 400*mem.MiB)
	case dice < 40:
		r.drop(&r.eager, r.rand.IntN(1+len(r.eager)))
	case dice < 47 && r.region.open:
		r.request(r.region.number, &r.region.live, 60*mem.MiB)
	case dice < 52:
		r.toggleRegion()
	case dice < 62:
		r.capture(p)
	case dice < 84 && len(p.graphs) > 0:
		r.replay(p, p.graphs[r.rand.IntN(len(p.graphs))])
	case dice < 88 && len(p.graphs) > 0:
		r.restore(p, p.graphs[len(p.graphs)-1])
	case dice < 91 && len(p.graphs) > 0:
		r.end(p)
	case dice < 94:
		r.togglePause()
	case dice < 97:
		r.may(r.Trim([]uint64{0, engine.Regions, engine.Released}[r.rand.IntN(3)]))
	default:
		r.finish()
	}
}

// request requests a block of a pool and adds it to a list.
func (r *run) request(number uint64, to *[]*block, most mem.Bytes) *block {
	size := 1 + mem.Bytes(r.rand.Int64N(int64(mem.KiB)<<r.rand.IntN(20)))%most
	stream := mem.StreamID(r.rand.IntN(2))
	if number == r.region.number {
		stream = 0 // which EndAwake waits for
	}
	at, err := r.MallocIn(stream, number, size)
	if err != nil {
		if r.did.refused++; !r.asleep && !errors.Is(err, driver.ErrOutOfMemory) {
			r.t.Error(err)
		}
		return nil
	}
	b := &block{at: at, size: size, stream: stream, pool: number}
	b.behind = r.behind(b)
	for _, other := range r.living() {
		if meet(b, other) {
			r.t.Errorf("%#x + %v of pool %d has bytes of %#x + %v of pool %d", uint64(at), size,
				number, uint64(other.at), other.size, other.pool)
		}
	}
	*to = append(*to, b)
	r.must(r.gpu.Use(stream, at, size))
	return b
}

// living are all live blocks.
func (r *run) living() []*block {
	return slices.Concat(r.eager, r.region.live, r.pools[0].live, r.pools[1].live)
}

func (r *run) behind(b *block) (parts []part) {
	for at, end := b.at, b.at+mem.Addr(b.size); at < end; {
		h, from, ok := r.gpu.Behind(at)
		if !ok {
			return nil // it is away, or sleeps
		}
		lo := mem.Bytes(from)
		hi := min(mem.RoundUp(lo+1, mem.HandleSize), lo+mem.Bytes(end-at))
		parts = append(parts, part{h, lo, hi})
		at += mem.Addr(hi - lo)
	}
	return parts
}

// meet reports whether two blocks have a byte in common.
func meet(a, b *block) bool {
	for _, x := range a.behind {
		for _, y := range b.behind {
			if x.handle == y.handle && x.lo < y.hi && y.lo < x.hi {
				return true
			}
		}
	}
	return false
}

// aliases reports whether two blocks have bytes in common, and no address.
func aliases(a, b *block) bool {
	return meet(a, b) && (a.at+mem.Addr(a.size) <= b.at || b.at+mem.Addr(b.size) <= a.at)
}

// drop frees n blocks of a list.
func (r *run) drop(from *[]*block, n int) {
	for range n {
		i := r.rand.IntN(len(*from))
		r.must(r.Release((*from)[i].at))
		*from = slices.Delete(*from, i, i+1)
	}
}

// toggleRegion closes the region, or opens it.
func (r *run) toggleRegion() {
	if !r.region.open {
		r.open()
		return
	}
	how := pool.Closing{Changed: true, All: r.rand.IntN(2) == 0}
	if !r.asleep && r.may(r.EndAwake(r.region.number, 0, how)) {
		r.region.open = false
		for _, b := range r.region.live {
			b.behind = nil // others may have its memory
		}
	}
}

func (r *run) open() {
	if r.region.open || r.asleep {
		return
	}
	if err := r.BeginAwake(r.region.number, 0); err != nil {
		r.did.refused++
		r.drop(&r.eager, len(r.eager))
		return
	}
	r.region.open = true
	r.did.openings++
	for _, b := range r.region.live {
		b.behind = r.behind(b)
		r.must(r.gpu.Use(0, b.at, b.size))
	}
}

// togglePause has all memory sleep but that of graphs, or wakes it.
func (r *run) togglePause() {
	if r.asleep {
		r.wake()
		return
	}
	err := r.Pause(nil, false)
	r.may(err)
	if r.asleep = err == nil || strings.HasPrefix(err.Error(), "it sleeps"); r.asleep {
		r.did.pauses++
	}
	r.refresh()
}

func (r *run) wake() {
	was := r.faults.suppress(true)
	if err := r.Resume(nil); err != nil {
		r.t.Error(err)
	}
	r.faults.suppress(was)
	r.asleep = false
	r.refresh()
}

// refresh finds out anew what memory blocks have. What is away has none, though it may be mapped.
func (r *run) refresh() {
	for _, b := range r.eager {
		b.behind = r.behind(b)
	}
	for _, b := range r.region.live {
		if r.region.open {
			b.behind = r.behind(b)
		}
	}
}
