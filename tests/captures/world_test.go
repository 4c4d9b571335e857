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

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

// may is must of what may fail where driver calls do.
func (w *world) may(err error) bool {
	w.t.Helper()
	if err != nil && w.faults.each == 0 {
		w.t.Error(err)
	}
	return err == nil
}

func (w *world) play(n int) {
	for range n {
		if w.act(); w.t.Failed() {
			return
		}
	}
	w.faults.hush(true)
	w.wake()
	for i := range w.pools {
		p := &w.pools[i]
		w.drop(&p.live, len(p.live))
		p.graphs = nil
		w.must(w.Trim(p.number))
	}
	w.open()
	w.drop(&w.region.live, len(w.region.live))
	w.drop(&w.eager, len(w.eager))
	w.finish()
	w.must(errors.Join(w.Trim(engine.Released), w.Trim(0), w.Check()))
	if used := w.gpu.Used(); used > 0 {
		w.t.Errorf("all is freed, and %v are held", used)
	}
	w.must(errors.Join(append(w.gpu.Violations(), w.Close())...))
}

func (w *world) finish() {
	w.gpu.Finish(0)
	w.gpu.Finish(1)
}

func (w *world) act() {
	p := &w.pools[w.rand.IntN(len(w.pools))]
	switch dice := w.rand.IntN(100); {
	case dice < 30:
		w.ask(0, &w.eager, 400*mem.MiB)
	case dice < 40:
		w.drop(&w.eager, w.rand.IntN(1+len(w.eager)))
	case dice < 47 && w.region.open:
		w.ask(w.region.number, &w.region.live, 60*mem.MiB)
	case dice < 52:
		w.turn()
	case dice < 62:
		w.capture(p)
	case dice < 84 && len(p.graphs) > 0:
		w.replay(p, p.graphs[w.rand.IntN(len(p.graphs))])
	case dice < 88 && len(p.graphs) > 0:
		w.restore(p, p.graphs[len(p.graphs)-1])
	case dice < 91 && len(p.graphs) > 0:
		w.end(p)
	case dice < 94:
		w.nap()
	case dice < 97:
		w.may(w.Trim([]uint64{0, engine.Regions, engine.Released}[w.rand.IntN(3)]))
	default:
		w.finish()
	}
}

// ask asks for a block of a pool and adds it to a list.
func (w *world) ask(number uint64, to *[]*block, most mem.Bytes) *block {
	size := 1 + mem.Bytes(w.rand.Int64N(int64(mem.KiB)<<w.rand.IntN(20)))%most
	stream := mem.StreamID(w.rand.IntN(2))
	if number == w.region.number {
		stream = 0 // which EndAwake waits for
	}
	at, err := w.MallocIn(stream, number, size)
	if err != nil {
		if w.did.refused++; !w.asleep && !errors.Is(err, driver.ErrOutOfMemory) {
			w.t.Error(err)
		}
		return nil
	}
	b := &block{at: at, size: size, stream: stream, pool: number}
	b.behind = w.behind(b)
	for _, other := range w.living() {
		if meet(b, other) {
			w.t.Errorf("%#x + %v of pool %d has bytes of %#x + %v of pool %d", uint64(at), size,
				number, uint64(other.at), other.size, other.pool)
		}
	}
	*to = append(*to, b)
	w.must(w.gpu.Use(stream, at, size))
	return b
}

// living are all live blocks.
func (w *world) living() []*block {
	return slices.Concat(w.eager, w.region.live, w.pools[0].live, w.pools[1].live)
}

func (w *world) behind(b *block) (parts []part) {
	for at, end := b.at, b.at+mem.Addr(b.size); at < end; {
		h, from, ok := w.gpu.Behind(at)
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
func (w *world) drop(from *[]*block, n int) {
	for range n {
		i := w.rand.IntN(len(*from))
		w.must(w.Release((*from)[i].at))
		*from = slices.Delete(*from, i, i+1)
	}
}

// turn closes the region, or opens it.
func (w *world) turn() {
	if !w.region.open {
		w.open()
		return
	}
	how := pool.Closing{Changed: true, All: w.rand.IntN(2) == 0}
	if !w.asleep && w.may(w.EndAwake(w.region.number, 0, how)) {
		w.region.open = false
		for _, b := range w.region.live {
			b.behind = nil // others may have its memory
		}
	}
}

func (w *world) open() {
	if w.region.open || w.asleep {
		return
	}
	if err := w.BeginAwake(w.region.number, 0); err != nil {
		w.did.refused++
		w.drop(&w.eager, len(w.eager))
		return
	}
	w.region.open = true
	w.did.openings++
	for _, b := range w.region.live {
		b.behind = w.behind(b)
		w.must(w.gpu.Use(0, b.at, b.size))
	}
}

// nap has all memory sleep but that of graphs, or wakes it.
func (w *world) nap() {
	if w.asleep {
		w.wake()
		return
	}
	err := w.Pause(nil, false)
	w.may(err)
	if w.asleep = err == nil || strings.HasPrefix(err.Error(), "it sleeps"); w.asleep {
		w.did.naps++
	}
	w.look()
}

func (w *world) wake() {
	was := w.faults.hush(true)
	if err := w.Resume(nil); err != nil {
		w.t.Error(err)
	}
	w.faults.hush(was)
	w.asleep = false
	w.look()
}

// look finds out anew what memory blocks have. What is away has none, though it may be mapped.
func (w *world) look() {
	for _, b := range w.eager {
		b.behind = w.behind(b)
	}
	for _, b := range w.region.live {
		if w.region.open {
			b.behind = w.behind(b)
		}
	}
}
