// Package region has the names of regions. A region is a private pool that the program names, so
// that what is allocated in it sleeps, or is away, by itself. Its handles serve nothing outside of
// it; the free ones go back to the driver with all that is idle. The same name is the same region
// on each device: its number is a hash of its name. So a device may forget a region without memory,
// and the program may use the name again. The names themselves are kept.
package region

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

// named are the names of regions, by number. They are kept, so that a name that is spelled wrongly
// is told; a program cannot have more than mostNames.
var named = struct {
	sync.Mutex
	tags map[uint64]string
}{tags: map[uint64]string{}}

const mostNames = 1 << 16

// ErrUnknown says that a tag is no region's name.
var ErrUnknown = errors.New("there is no such region")

func numberOf(tag string) uint64 {
	sum := sha256.Sum256([]byte(tag))
	return engine.FirstRegion | binary.LittleEndian.Uint64(sum[:])>>2
}

// Number returns the private pool of a name.
func Number(tag string) (uint64, error) {
	if tag == "" {
		return 0, fmt.Errorf("%w: give it a name that is not empty", ErrUnknown)
	}
	n := numberOf(tag)
	named.Lock()
	defer named.Unlock()
	if _, known := named.tags[n]; !known && len(named.tags) == mostNames {
		return 0, fmt.Errorf("%w as %q, and there are %d others: use one of their names again",
			ErrUnknown, tag, mostNames)
	}
	named.tags[n] = tag
	return n, nil
}

// Numbers returns the private pools of names that Number has been told of.
func Numbers(tags []string) (pools []uint64, err error) {
	named.Lock()
	defer named.Unlock()
	for _, tag := range tags {
		n := numberOf(tag)
		if _, known := named.tags[n]; !known {
			return nil, fmt.Errorf("%w as %q; known are: %s", ErrUnknown, tag, someNames())
		}
		pools = append(pools, n)
	}
	return pools, nil
}

func someNames() string {
	const most = 32
	if len(named.tags) == 0 {
		return "none, begin one first"
	}
	names := slices.Sorted(maps.Values(named.tags))
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// All returns the private pools of all names that are known.
func All() []uint64 {
	named.Lock()
	defer named.Unlock()
	return slices.Sorted(maps.Keys(named.tags))
}
