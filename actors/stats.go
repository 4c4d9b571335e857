package actors

import "math"

// Stats is the state of a device's allocator.
type Stats struct {
	PoolStats
	// requests that were foreseen: served at their planned offsets, or elsewhere
	Hits, Misses      uint64
	Steps, Generation uint64 // boundaries; plans activated
	DroppedEvents     uint64 // of steps that ended faster than the planner could look at them
	Native            Native // what PyTorch's allocator would have come to, if Options.Native asks
}

// Stats returns the current counts.
func (d *Device) Stats() Stats {
	s := Stats{Steps: d.steps.Load(), Generation: d.generation.Load(),
		DroppedEvents: d.dropped.Load()}
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

// Retries is PoolStats.Retries; it asks no actor either.
func (d *Device) Retries() uint64 { return d.retries.Load() }

// Served is the part of Stats that asks no actor, so that it changes nothing: the pool
// looks at its fences whenever it is asked.
func (d *Device) Served() (hits, misses uint64) {
	d.host.Lock()
	defer d.host.Unlock()
	hits, misses = d.gone.hits, d.gone.misses
	for _, l := range *d.streams.Load() {
		h, m := d.host.Served(l.id)
		hits, misses = hits+h, misses+m
	}
	return hits, misses
}
