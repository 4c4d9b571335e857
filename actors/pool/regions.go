package pool

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"stalloc/engine"
)

// A region is a private pool that the program names, so that what is allocated in it sleeps by
// itself (sleep.go). Its handles serve nothing else while it may have requests; the free ones go
// back to the driver with all that is idle. The same name is the same region on each device: its
// number is a hash of its name. So a region without memory can be forgotten, even if the program
// may use it again.

// named are the names of regions, by number. They are kept, so that a name that is spelled wrongly
// is told; a program cannot have more than mostNames.
var named = struct {
	sync.Mutex
	tags map[uint64]string
}{tags: map[uint64]string{}}

const mostNames = 1 << 16

// ErrNoRegion says that a tag is no region's name.
var ErrNoRegion = errors.New("there is no such region")

// numberOf returns the private pool of a name.
func numberOf(tag string) uint64 {
	sum := sha256.Sum256([]byte(tag))
	return engine.FirstRegion | binary.LittleEndian.Uint64(sum[:])>>2
}

// Region returns the private pool of a name.
func Region(tag string) (uint64, error) {
	if tag == "" {
		return 0, fmt.Errorf("%w: give it a name that is not empty", ErrNoRegion)
	}
	n := numberOf(tag)
	named.Lock()
	defer named.Unlock()
	if _, known := named.tags[n]; !known && len(named.tags) == mostNames {
		return 0, fmt.Errorf("%w as %q, and there are %d others: use one of their names again",
			ErrNoRegion, tag, mostNames)
	}
	named.tags[n] = tag
	return n, nil
}

// RegionsOf returns the private pools of names that Region has been told of.
func RegionsOf(tags []string) (pools []uint64, err error) {
	named.Lock()
	defer named.Unlock()
	for _, tag := range tags {
		n := numberOf(tag)
		if _, known := named.tags[n]; !known {
			return nil, fmt.Errorf("%w as %q; known are: %s", ErrNoRegion, tag, someNames())
		}
		pools = append(pools, n)
	}
	return pools, nil
}

// someNames tells people the names that are known.
func someNames() string {
	const most = 32
	names := slices.Sorted(maps.Values(named.tags))
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// allRegions returns the private pools of all names that are known.
func allRegions() []uint64 {
	named.Lock()
	defer named.Unlock()
	return slices.Sorted(maps.Keys(named.tags))
}

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
