package actors

import (
	"sync"

	"go.uber.org/zap"
)

// inbox holds the steps that the planner has not looked at yet. Steps may end faster
// than it looks at them, and each brings all its events. So no more than so many wait,
// and for a new one the oldest go.
type inbox struct {
	mu      sync.Mutex
	steps   []*stepEnded
	weight  int
	dropped uint64 // events, ever
	// What is logged of steps that the planner does not see: each once.
	saidLost, saidDropped sync.Once
}

// mostWaiting bounds the events that wait beside those of the newest step; a step
// counts as emptyStep events more, which is what the rest of it takes.
const (
	mostWaiting = MostEvents
	emptyStep   = 16
)

// weight is how many events' memory a step takes.
func (m *stepEnded) weight() int { return len(m.events) + emptyStep*(1+len(m.gaps)) }

// put adds a step. It reports whether the planner is to be told: it was told of those
// that wait already. It says how many steps were dropped for this one.
func (b *inbox) put(m *stepEnded) (tell bool, dropped int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	tell = len(b.steps) == 0
	for ; len(b.steps) > 0 && b.weight+m.weight() > mostWaiting; dropped++ {
		oldest := b.steps[0]
		b.steps[0] = nil
		b.steps = b.steps[1:]
		b.weight -= oldest.weight()
		b.dropped += uint64(len(oldest.events))
		m.gap = len(b.steps) == 0
	}
	if dropped > 0 && len(b.steps) > 0 {
		b.steps[0].gap = true
	}
	b.steps = append(b.steps, m)
	b.weight += m.weight()
	return tell, dropped
}

// take empties the inbox, the oldest step first.
func (b *inbox) take() []*stepEnded {
	b.mu.Lock()
	defer b.mu.Unlock()
	steps := b.steps
	b.steps, b.weight = nil, 0
	return steps
}

// lost returns how many events were dropped.
func (b *inbox) lost() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropped
}

// observed hands a step to the planner.
func (d *Device) observed(m *stepEnded) {
	if m.lost > 0 {
		d.inbox.saidLost.Do(func() {
			d.log.Warn("a step is not planned: it has more requests and frees than are observed of one; mark steps more often",
				zap.Int("observed", len(m.events)), zap.Int("at most", MostEvents))
		})
	}
	tell, dropped := d.inbox.put(m)
	if dropped > 0 {
		d.inbox.saidDropped.Do(func() {
			d.log.Warn("steps end faster than they can be looked at; only the newest are", zap.Int("dropped", dropped))
		})
	}
	if tell {
		d.root.Send(d.planner, stepsWait{})
	}
}
