package actors

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"stalloc/engine"
)

// A region is a private pool that the program names, so that what is allocated in it sleeps for
// itself (pause.go). Its handles serve nothing else while it may have requests; what is free of
// them goes back with all that is idle. Names are the process's: the same name is the same region
// on each device.
var regions struct {
	sync.Mutex
	names []string
}

// ErrNoRegion says that a tag is no region's name.
var ErrNoRegion = errors.New("there is no such region")

// Region returns the private pool of a name, a new one where it is not known yet.
func Region(tag string) (uint64, error) {
	if tag == "" {
		return 0, fmt.Errorf("%w: give it a name that is not empty", ErrNoRegion)
	}
	regions.Lock()
	defer regions.Unlock()
	i := slices.Index(regions.names, tag)
	if i < 0 {
		i = len(regions.names)
		regions.names = append(regions.names, tag)
	}
	return engine.FirstRegion + uint64(i), nil
}

// RegionsOf returns the private pools of names that Region has been told of.
func RegionsOf(tags []string) (pools []uint64, err error) {
	regions.Lock()
	defer regions.Unlock()
	for _, tag := range tags {
		i := slices.Index(regions.names, tag)
		if i < 0 {
			known := strings.Join(regions.names, ", ")
			return nil, fmt.Errorf("%w as %q; known are: %s", ErrNoRegion, tag, known)
		}
		pools = append(pools, engine.FirstRegion+uint64(i))
	}
	return pools, nil
}

// allRegions returns the private pools of all names.
func allRegions() (pools []uint64) {
	regions.Lock()
	defer regions.Unlock()
	for i := range regions.names {
		pools = append(pools, engine.FirstRegion+uint64(i))
	}
	return pools
}

// Sleeps reports whether private pools of regions sleep, or with none named the default pool.
func (d *Device) Sleeps(pools []uint64) (all bool) {
	if len(pools) == 0 {
		pools = []uint64{0}
	}
	_ = d.rare(func(p *pool) error {
		all = !slices.ContainsFunc(pools, func(pool uint64) bool { return !p.sleeps(pool) })
		return nil
	}, ignored)
	return all
}

// trimRegions gives back what is idle of regions.
func (p *pool) trimRegions() error {
	var errs []error
	for _, pool := range allRegions() {
		_, err := p.run(engine.Event{Kind: engine.EvTrim, Pool: pool})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
