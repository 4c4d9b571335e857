package actors

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/plan"
)

// opening finds the plan of an earlier run by comparing the first requests of this
// one. The same program run the same way is believed at its first request, if all
// plans that the cache has for it begin with the same plan.KeyRequests of them; the
// last used is taken. Anything else is believed after so many. What the pool has
// served by then it keeps, and the plan begins behind it.
//
// Files are read on a goroutine, for which a request waits some milliseconds: the first, so
// that the largest blocks of a run, which often come first, are served from the plan, and the
// one at which the plan is known.
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
		slices.SortStableFunc(o.files, func(a, b cached) int { // those of this program first
			return cmp.Compare(btoi(a.program != c.program), btoi(b.program != c.program))
		})
	})
	return o
}

// next takes the next request of the first stream. If the run is recognised, it
// has its plan served from this request on.
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
	o.over.Store(true)
	start, skip := o.read(f), o.sizes[:len(o.sizes)-1]
	if start == nil {
		return
	}
	if err := tell(o.d, o.d.supervisor, func(s *supervisor) error { return s.startWith(start, skip) }); err != nil {
		o.d.log.Warn("a saved plan is not served", zap.String("file", f.path), zap.Error(err))
		return
	}
	o.d.background.Go(func() { o.cache.use(f.path) })
	o.d.log.Info("the plan of an earlier run is served", zap.String("file", f.path), zap.Int("after requests", len(skip)))
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

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
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

// choose finds the file that this run is the run of, if the requests so far say.
func (o *opening) choose() (f cached, chosen bool) {
	level := slices.Index(prefixes[:], len(o.sizes))
	if level < 0 {
		return f, false
	}
	key := fold(plan.KeyOf(o.sizes))
	o.files = slices.DeleteFunc(o.files, func(f cached) bool { return f.keys[level] != key })
	last := level == len(prefixes)-1
	var ours []cached
	for _, f := range o.files {
		if f.program == o.cache.program {
			ours = append(ours, f)
		}
	}
	switch {
	case len(ours) > 0 && (last || !differ(ours)):
		return ours[0], true // the last used
	case len(o.files) > 0 && last:
		return o.files[0], true // of another program, or run another way
	}
	return f, false
}

// differ reports whether the first requests of runs tell their plans apart.
func differ(files []cached) bool {
	return slices.ContainsFunc(files, func(f cached) bool { return f.keys != files[0].keys })
}
