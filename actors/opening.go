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
// Files are read on a goroutine. The first request waits for those that may be
// its own, which takes some milliseconds once, so that the largest blocks of a
// run, which often come first, are served from the plan.
type opening struct {
	d     *Device
	cache *cache
	over  atomic.Bool // nothing more is compared

	listed chan struct{} // closed when files and plans are there
	files  []cached
	loaded sync.Map // of path: *plan.Plan

	mu     sync.Mutex
	sizes  []mem.Bytes
	chosen string // the file that fits
}

const (
	// patienceForFiles is how long the first request waits for a folder on a slow
	// disk.
	patienceForFiles = 250 * time.Millisecond
	// loadedAtOnce is how many plans are read before it is known which one fits.
	loadedAtOnce = 4
	// lateRequests is how many requests after the last comparison a plan may still
	// come from the disk.
	lateRequests = 1 << 12
)

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
		for _, f := range o.files[:min(loadedAtOnce, len(o.files))] {
			o.load(f)
		}
	})
	return o
}

func (o *opening) load(f cached) {
	p, err := o.cache.load(f)
	if err != nil {
		o.d.log.Warn("a saved plan is of no use", zap.Error(err))
	}
	o.loaded.Store(f.path, p)
}

// next takes the next request of the first stream. If the run is recognised, it
// has its plan served from this request on.
func (o *opening) next(asked mem.Bytes) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over.Load() {
		return
	}
	if len(o.sizes) == 0 && !o.wait() || o.d.steps.Load() > 0 || len(o.sizes) > plan.KeyRequests+lateRequests {
		o.end()
		return
	}
	o.sizes = append(o.sizes, mem.Round(asked))
	if o.chosen == "" && !o.choose() {
		return
	}
	p, ok := o.loaded.Load(o.chosen)
	if !ok {
		return // it is on its way
	}
	o.end()
	start, skip := p.(*plan.Plan), o.sizes[:len(o.sizes)-1]
	if start == nil {
		return
	}
	if err := tell(o.d, o.d.supervisor, func(s *supervisor) error { return s.startWith(start, skip) }); err != nil {
		o.d.log.Warn("a saved plan is not served", zap.String("file", o.chosen), zap.Error(err))
		return
	}
	o.d.background.Go(func() { o.cache.use(o.chosen) })
	o.d.log.Info("the plan of an earlier run is served", zap.String("file", o.chosen), zap.Int("after requests", len(skip)))
}

// end stops comparing, and forgets what was read.
func (o *opening) end() {
	o.over.Store(true)
	o.loaded.Clear()
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// wait lets the folder be read. In a replay, where no time passes, it takes as long as
// it takes.
func (o *opening) wait() bool {
	if o.d.opts.Inline {
		<-o.listed
		return len(o.files) > 0
	}
	select {
	case <-o.listed:
		return len(o.files) > 0
	default:
	}
	late := time.NewTimer(patienceForFiles)
	defer late.Stop()
	select {
	case <-o.listed:
		return len(o.files) > 0
	case <-late.C:
		return false
	}
}

// choose finds the file that this run is the run of, if the requests so far say.
func (o *opening) choose() bool {
	n := len(o.sizes)
	level := slices.Index(prefixes[:], n)
	if level < 0 {
		return false
	}
	key := fold(plan.KeyOf(o.sizes))
	o.files = slices.DeleteFunc(o.files, func(f cached) bool { return f.keys[level] != key })
	if len(o.files) == 0 {
		o.end()
		return false
	}
	last := level == len(prefixes)-1
	var ours []cached
	for _, f := range o.files {
		if f.program == o.cache.program {
			ours = append(ours, f)
		}
	}
	var f cached
	switch {
	case len(ours) > 0 && (last || !differ(ours)):
		f = ours[0] // the last used
	case last:
		f = o.files[0] // of another program, or run another way
	default:
		return false
	}
	o.chosen = f.path
	if _, ok := o.loaded.Load(f.path); !ok {
		o.d.background.Go(func() { o.load(f) })
	}
	return true
}

// differ reports whether the first requests of runs tell their plans apart.
func differ(files []cached) bool {
	return slices.ContainsFunc(files, func(f cached) bool { return f.keys != files[0].keys })
}
