package actors

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/plan"
)

// opening finds what an earlier run has left, by the first plan.KeyRequests requests of this
// one on its first stream: of the runs that began with the same, one of the same program, the
// last used.
//
// Files are read on a goroutine, for which a request waits some milliseconds.
type opening struct {
	d     *Device
	cache *cache
	over  atomic.Bool // nothing more is compared

	listed chan struct{} // closed when the files are there
	files  []cached

	mu    sync.Mutex
	sizes []mem.Bytes
}

// patienceForFiles is how long a request waits for a slow disk.
const patienceForFiles = 250 * time.Millisecond

// newOpening begins to read the cache.
func newOpening(d *Device, c *cache) *opening {
	o := &opening{d: d, cache: c, listed: make(chan struct{})}
	d.background.Go(func() {
		defer close(o.listed)
		if err := c.check(); err != nil {
			d.log.Warn("plans of earlier runs are not used", zap.Error(err))
			return
		}
		o.files = c.list()
	})
	return o
}

// next takes the next request of the first stream.
func (o *opening) next(asked mem.Bytes) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over.Load() {
		return
	}
	if len(o.sizes) == 0 && !o.wait(o.listed) || len(o.files) == 0 || o.d.steps.Load() > 0 {
		o.over.Store(true)
		return
	}
	o.sizes = append(o.sizes, mem.Round(asked))
	f, chosen := o.choose()
	if !chosen {
		return
	}
	if p := o.read(f); p != nil {
		o.d.recall(p)
		o.d.background.Go(func() { o.cache.use(f.path) })
		o.d.log.Info("what an earlier run has learned is used", zap.String("file", f.path), zap.Int("steps", len(p.Steps)))
	}
}

// recall uses what an earlier run has left: the size of its handles from now on, and its steps as
// soon as there is memory for them.
func (d *Device) recall(p *plan.Plan) {
	d.latest.Store(p)
	d.root.Send(d.planner, &planLoaded{p})
}

// read reads a plan; nil: it is of no use, or does not come in time.
func (o *opening) read(f cached) *plan.Plan {
	var p *plan.Plan
	done := make(chan struct{})
	o.d.background.Go(func() {
		defer close(done)
		var err error
		if p, err = o.cache.load(f); err != nil {
			o.d.log.Warn("a saved plan is of no use", zap.Error(err))
		}
	})
	if !o.wait(done) {
		return nil
	}
	return p
}

// wait lets something be read. In a replay, where no time passes, it takes as long as it
// takes.
func (o *opening) wait(done <-chan struct{}) bool {
	if o.d.opts.Inline {
		<-done
		return true
	}
	late := time.NewTimer(patienceForFiles)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		return false
	}
}

// choose finds the file that this run is the run of, once its first requests say.
func (o *opening) choose() (f cached, chosen bool) {
	if len(o.sizes) < plan.KeyRequests {
		return f, false
	}
	o.over.Store(true)
	key := plan.KeyOf(o.sizes)
	alike := slices.DeleteFunc(o.files, func(f cached) bool { return f.key != key })
	if own := slices.DeleteFunc(slices.Clone(alike), func(f cached) bool { return f.program != o.cache.program }); len(own) > 0 {
		alike = own
	}
	if len(alike) > 1 {
		alike = o.cache.latest(alike)
	}
	if len(alike) == 0 {
		return f, false
	}
	return alike[0], true
}
