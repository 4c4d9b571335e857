package sim

import (
	"math/rand/v2"
	"sync"
	"time"

	"stalloc/internal/mem"
)

// worker is the thread of one stream.
type worker struct {
	run    *run
	stream mem.StreamID
	random *rand.Rand
	now    map[int]*block // of this step, by the program's number
	others []*block       // that do not end as the program says
	kept   []*block       // that stay to the end
	// That stay until the next step.
	gradients []*block

	mu    sync.Mutex
	gifts []*block // from other threads, to be freed here
}

// step does the program once, nearly. What fails is done without.
func (w *worker) step(p program) {
	w.now = map[int]*block{}
	halfway := len(p)
	if w.random.Float64() < w.run.aborts {
		halfway = w.random.IntN(len(p))
	}
	for _, o := range p[:halfway] {
		if w.random.IntN(3) == 0 { // else at the same instant as the last: then threads contend
			time.Sleep(time.Duration(1+w.random.IntN(3)) * time.Microsecond)
		}
		if w.deviates() {
			w.deviate()
		}
		switch b := w.now[o.id]; {
		case !o.free:
			size := o.size
			if w.deviates() {
				size += mem.Bytes(w.random.Int64N(int64(mem.MiB)))
			}
			w.now[o.id] = w.malloc(size)
		case b != nil:
			delete(w.now, o.id)
			w.free(b)
		}
	}
	for _, o := range p { // after an abort; in order, or the seed would not decide
		if b := w.now[o.id]; b != nil {
			delete(w.now, o.id)
			w.free(b)
		}
	}
	w.drop(4)
}

// deviates reports whether it is time for what no program says.
func (w *worker) deviates() bool { return w.random.Float64() < w.run.noise }

// keep asks for blocks that stay.
func (w *worker) keep(sizes []mem.Bytes) {
	for _, size := range sizes {
		w.kept = append(w.kept, w.malloc(size))
	}
}

// backward asks for the gradients.
func (w *worker) backward(sizes []mem.Bytes) {
	for _, size := range sizes {
		w.gradients = append(w.gradients, w.malloc(size))
	}
}

// clear frees the gradients.
func (w *worker) clear() {
	for _, b := range w.gradients {
		if b != nil {
			w.free(b)
		}
	}
	w.gradients = nil
}

// deviate does something that no program says.
func (w *worker) deviate() {
	switch w.random.IntN(6) {
	case 0:
		w.others = append(w.others, w.malloc(drawSize(w.random, w.run.largest)))
	case 1:
		w.drop(2)
	case 2: // hand a block to another thread
		if n := len(w.others); n > 0 && w.others[n-1] != nil {
			to := w.run.workers[w.random.IntN(len(w.run.workers))]
			to.mu.Lock()
			to.gifts = append(to.gifts, w.others[n-1])
			to.mu.Unlock()
			w.others = w.others[:n-1]
		}
	case 3: // a kernel on another stream reads one
		for _, b := range w.now {
			if b != nil {
				w.use(b, mem.StreamID(w.random.IntN(w.run.streams+1)))
			}
			break
		}
	case 4:
		w.run.model.finish(mem.StreamID(w.random.IntN(w.run.streams + 1)))
	case 5: // a free of what is none is refused and harms nobody
		if err := w.run.local.Release(mem.Addr(w.random.Uint64() | 1)); err == nil {
			w.run.fail("the free of an address that never was a block was accepted")
		}
	}
}

func (w *worker) malloc(size mem.Bytes) *block {
	addr, err := w.run.local.Malloc(w.stream, size)
	w.run.answered.Add(1)
	if err == nil {
		return w.run.model.take(addr, size, w.stream)
	}
	w.run.refused.Add(1)
	if !w.run.mayFail() {
		w.run.fail("stream %d: %v: %w", w.stream, size, err)
	}
	return nil
}

func (w *worker) use(b *block, stream mem.StreamID) {
	if err := w.run.local.Record(b.addr, stream); err != nil {
		if !w.run.wrecked(err) {
			w.run.fail("use of %#x on stream %d: %w", uint64(b.addr), stream, err)
		}
		return
	}
	w.run.model.useOn(b, stream)
}

func (w *worker) free(b *block) {
	w.run.model.give(b)
	if err := w.run.local.Release(b.addr); err != nil && !w.run.wrecked(err) {
		w.run.fail("stream %d: %w", w.stream, err)
	}
	w.run.answered.Add(1)
}

// drop frees what others gave and all but n of the blocks outside the program.
func (w *worker) drop(n int) {
	w.mu.Lock()
	gifts := w.gifts
	w.gifts = nil
	w.mu.Unlock()
	for _, b := range gifts {
		w.free(b)
	}
	for len(w.others) > n {
		if b := w.others[0]; b != nil {
			w.free(b)
		}
		w.others = w.others[1:]
	}
}
