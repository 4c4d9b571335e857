package actors

import (
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/stream/brief"
)

// saver makes the plan of a later run once this one's steps are served well, and leaves it
// in the cache.
type saver struct {
	d       *Device
	history *history // nil: it is done
	step    int      // the boundaries before the step that was served well; 0: none yet
	well    int      // steps in a row that were
	steps   int      // that were judged
	loaded  bool     // the run began with an earlier run's plan

	writing sync.Mutex
	kept    string // the file of this run's plan
}

const (
	// A plan is kept behind the first step that it serves well, and once more behind that many
	// in a row: what has been freed by then is known to.
	wellBefore = 2
	// Behind so many steps, set-up and the first step are kept in any case.
	setUpAfter = 3
	// mostFirst is behind how many no step is looked for any more that repeats.
	mostFirst = 12
)

// add takes in a step.
func (s *saver) add(m *stepEnded) {
	if s.history != nil {
		s.history.add(m, s.d.small)
	}
}

// judged says of the step that was added last whether wishes served it.
func (s *saver) judged(m *stepEnded, served bool, learned *brief.Learner) {
	h := s.history
	if h == nil {
		return
	}
	if h.lost {
		s.history = nil
		return
	}
	if served && s.loaded { // there is nothing to add
		s.history = nil
		return
	}
	s.steps++
	if s.well++; !served {
		s.well = 0
	} else if s.step == 0 && !h.over {
		s.step, h.over = len(h.cuts)-1, true
	}
	h.over = h.over || s.steps >= mostFirst
	if s.well >= wellBefore || s.step == 0 && h.over {
		s.history = nil
	}
	switch {
	case s.step > 0 && s.well > 0, s.step == 0 && s.steps == setUpAfter:
		s.save(h, m.handle, learned)
	}
}

func (s *saver) save(h *history, handle mem.Bytes, learned *brief.Learner) {
	step, counts := s.step, learned.Counts()
	if !s.d.opts.Inline {
		h = h.asOfNow()
	}
	write := func() {
		s.writing.Lock()
		defer s.writing.Unlock()
		start := time.Now()
		p := h.plan(step)
		p.Handle, p.Late, p.Brief = handle, s.d.late.at(), counts
		s.d.latest.Store(p)
		if s.d.opts.Cache == "" {
			return
		}
		path, err := newCache(s.d.opts.Cache).store(p, h.first, p.Run())
		if err != nil {
			s.d.log.Warn("the plan is not kept for later runs", zap.Error(err))
			return
		}
		if s.kept != "" && s.kept != path { // it knew less
			_ = os.Remove(s.kept)
		}
		s.kept = path
		s.d.log.Info("the plan is kept for later runs", zap.String("file", path), zap.Int("requests", p.Requests()), zap.Duration("took", time.Since(start)))
	}
	if s.d.opts.Inline {
		write()
		return
	}
	s.d.background.Go(write)
}

// loaded takes in that the run began with an earlier run's plan, which is judged behind
// its beginning.
func (p *planner) loaded(m *planLoaded) {
	if !p.saver.loaded {
		p.begin, p.saver.loaded = m.plan.Boundaries, true
		p.brief.Learned(m.plan.Brief)
		p.tellBrief()
	}
	for key, step := range m.steps {
		if step != nil {
			k := &kind{before: step.Entries, wishes: step}
			p.known[key] = &habit{kinds: []*kind{k}, last: k, serving: k}
		}
	}
}
