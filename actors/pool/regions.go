package pool

import (
	"maps"
	"slices"

	"stalloc/engine"
)

// Sleeps reports whether some, and whether all, of these private pools of regions sleep; with none
// named of the default pool and all regions that may have memory.
func (p *Pool) Sleeps(pools []uint64) (some, all bool) {
	if len(pools) == 0 {
		pools = append(slices.Collect(maps.Keys(p.asleep)), 0)
		for n := range p.policy.Regions() {
			if n >= engine.FirstRegion {
				pools = append(pools, n)
			}
		}
	}
	some = slices.ContainsFunc(pools, p.sleeps)
	all = !slices.ContainsFunc(pools, func(pool uint64) bool { return !p.sleeps(pool) })
	return some, all
}

// trimRegions gives back what is idle of regions, and of other private pools that no graph uses.
func (p *Pool) trimRegions() (err error) {
	if len(p.policy.Regions()) > 0 {
		_, err = p.run(engine.Event{Kind: engine.EvTrim, Pool: engine.Regions})
	}
	p.forgetMoved()
	return err
}
