package pool

import (
	"cmp"
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
type region struct {
	name    string
	holders int    // devices where it may have memory
	used    uint64 // when it was named, or had memory, last
}

var regions = struct {
	sync.Mutex
	known map[uint64]*region // by number
	clock uint64
}{known: map[uint64]*region{}}

// mostForgotten is how many regions without memory are known all the same: a program may go on to
// pause what has none, and a name that is spelled wrongly is to be told.
const mostForgotten = 256

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
	regions.Lock()
	defer regions.Unlock()
	knownRegion(n).name = tag
	return n, nil
}

// knownRegion returns the region of a number, used now, and forgets those without memory that were
// not used for the longest. The registry is locked.
func knownRegion(n uint64) *region {
	r := regions.known[n]
	if r == nil {
		r = &region{}
		regions.known[n] = r
	}
	regions.clock++
	r.used = regions.clock
	if len(regions.known) > 2*mostForgotten { // looked at now and then
		forgetUnused()
	}
	return r
}

func forgetUnused() {
	var idle []uint64
	for n, r := range regions.known {
		if r.holders == 0 {
			idle = append(idle, n)
		}
	}
	slices.SortFunc(idle, func(a, b uint64) int {
		return cmp.Compare(regions.known[a].used, regions.known[b].used)
	})
	for _, n := range idle[:max(len(idle)-mostForgotten, 0)] {
		delete(regions.known, n)
	}
}

// RegionsOf returns the private pools of names that Region has been told of lately, or that have
// memory.
func RegionsOf(tags []string) (pools []uint64, err error) {
	regions.Lock()
	defer regions.Unlock()
	for _, tag := range tags {
		n := numberOf(tag)
		if regions.known[n] == nil {
			return nil, fmt.Errorf("%w as %q; known are: %s", ErrNoRegion, tag, regionNames())
		}
		pools = append(pools, n)
	}
	return pools, nil
}

// regionNames tells people the names that are known.
func regionNames() string {
	const most = 32
	var names []string
	for _, r := range regions.known {
		names = append(names, r.name)
	}
	slices.Sort(names)
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// allRegions returns the private pools of all names that are known.
func allRegions() (pools []uint64) {
	regions.Lock()
	defer regions.Unlock()
	for n := range regions.known {
		pools = append(pools, n)
	}
	slices.Sort(pools)
	return pools
}

// beginRegion notes that a region may have memory of the device.
func (p *Pool) beginRegion(region uint64) {
	if _, known := p.regions[region]; region < engine.FirstRegion || known {
		return
	}
	p.regions[region] = struct{}{}
	regions.Lock()
	defer regions.Unlock()
	knownRegion(region).holders++
}

// keepRegions notes that only the regions that keep says may have memory of the device.
func (p *Pool) keepRegions(keep func(region uint64) bool) {
	regions.Lock()
	defer regions.Unlock()
	for n := range p.regions {
		if !keep(n) {
			delete(p.regions, n)
			knownRegion(n).holders--
		}
	}
}

// Sleeps reports whether some, and whether all, of these private pools of regions sleep; with none
// named of the default pool and all regions that may have memory.
func (p *Pool) Sleeps(pools []uint64) (some, all bool) {
	if len(pools) == 0 {
		pools = append(slices.Collect(maps.Keys(p.regions)), 0)
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
	p.forgetRegions()
	return err
}

// forgetRegions notes which regions have no memory any more.
func (p *Pool) forgetRegions() {
	if len(p.regions) > 0 {
		held := p.policy.Regions()
		p.keepRegions(func(n uint64) bool { return held[n] || p.sleeps(n) })
		p.forgetMoved()
	}
}
