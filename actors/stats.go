package actors

import "math"

// Stats is the state of a device's allocator.
type Stats struct {
	PoolStats
	Hits, Misses      uint64 // requests that were foreseen: served where they were wished, or elsewhere
	Steps, Generation uint64 // boundaries; plans activated
	DroppedEvents     uint64 // of steps that ended faster than the planner could look at them
	Native            Native // what PyTorch's allocator would have come to, if Options.Native asks
}

// Stats returns the current counts.
func (d *Device) Stats() Stats {
	s := Stats{Steps: d.steps.Load(), Generation: d.generation.Load(), DroppedEvents: d.dropped.Load()}
	_ = d.rare(func(p *pool) error {
		p.poll(math.MaxInt)
		if s.PoolStats = p.stats(); p.ranged != nil {
			s.LargestFree = p.ranged.LargestFree()
		}
		return nil
	}, func(p *pool) error {
		s.PoolStats = p.stats()
		return nil
	})
	s.Hits, s.Misses = d.Served()
	s.Native = d.native.estimate(s.Engine.PeakLoad)
	return s
}

// Served is the part of Stats that asks no actor, so that it changes nothing: the pool
// looks at its fences whenever it is asked.
func (d *Device) Served() (hits, misses uint64) {
	d.host.Lock()
	defer d.host.Unlock()
	for _, l := range *d.lanes.Load() {
		for i := range l.tapes {
			hits += l.tapes[i].Hits
			misses += l.tapes[i].Misses
		}
	}
	return hits, misses
}
