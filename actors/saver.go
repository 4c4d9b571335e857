package actors

import (
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream/schedule"
)

// saver leaves the steps that come again for later runs, and recalls those that an earlier run has
// left. The size of handles and what was learned of short-lived blocks were
// kept, too: a run that began with them wasted more than one that knew nothing.
type saver struct {
	d     *Device
	cache *cache
	first []mem.Bytes // the sizes of the first stream's first requests
	plan  *plan.Plan  // of an earlier run; nil: none
	times int         // that a plan was kept

	writing sync.Mutex
	kept    string // the file of this run's plan
}

// mostTimes bounds how often a run keeps a plan: a program may go on to have new kinds of steps.
const mostTimes = 8

// begin takes in what a step asked for first.
func (s *saver) begin(m *stepEnded) {
	for _, e := range m.events {
		if len(s.first) == plan.KeyRequests || s.times > 0 {
			return
		}
		asked := e.Kind() == schedule.EventHit || e.Kind() == schedule.EventMiss
		if asked && m.streams[e.Stream()] == m.order[0] {
			s.first = append(s.first, mem.Bytes(e.Size())*mem.Grain)
		}
	}
}

// save keeps the steps that are planned, if one of them is new.
func (s *saver) save(known map[arenaKey]*kinds, order []mem.StreamID) {
	x := &plan.Plan{Key: plan.KeyOf(s.first)}
	fresh := false
	for _, id := range order {
		h := known[arenaKey{id, false}] // small requests go where they lay, which a later run does not know
		if h == nil {
			continue
		}
		for _, k := range h.all {
			if k.schedule != nil {
				fresh = fresh || !k.kept
				k.kept = true
				x.Steps = append(x.Steps, k.step)
			}
		}
	}
	if !fresh || s.times == mostTimes {
		return
	}
	s.times++
	write := func() {
		s.writing.Lock()
		defer s.writing.Unlock()
		s.write(x)
	}
	if s.d.opts.Inline {
		write()
		return
	}
	s.d.background.Go(write)
}

// write places the steps, each for itself, and keeps them where there is a cache.
func (s *saver) write(x *plan.Plan) {
	start := time.Now()
	for i := range x.Steps {
		x.Steps[i] = x.Steps[i].Placed()
	}
	s.d.latest.Store(x)
	if s.cache.dir == "" {
		return
	}
	path, err := s.cache.store(x)
	if err != nil {
		s.d.log.Warn("the plan is not kept for later runs", zap.Error(err))
		return
	}
	if s.kept != "" && s.kept != path { // it knew less
		_ = os.Remove(s.kept)
	}
	s.kept = path
	s.d.log.Info("the plan is kept for later runs", zap.String("file", path), zap.Int("requests", x.Requests()), zap.Duration("took", time.Since(start)))
}

// recall adds the kinds of steps that an earlier run knew of an arena. Where blocks wait for other
// streams, that run's lives tell nothing of this one's.
func (s *saver) recall(h *kinds, now *arenaStep) {
	if s.plan == nil {
		return
	}
	for _, x := range s.plan.Steps {
		if x.Stream == now.Stream && !x.Small && !now.small && !x.Late() {
			h.add(&kind{step: x, loaded: true, kept: true})
		}
	}
}
