package baseline

import (
	"fmt"
	"strings"

	"stalloc/internal/mem"
)

// Options configure a simulator. The zero value is each allocator's default on
// an 80 GiB device.
type Options struct {
	// Capacity is the device's memory; 0 stands for DefaultCapacity. It also
	// sets the size of an expandable segment.
	Capacity mem.Bytes
	// Limit is PyTorch's memory fraction in bytes: what would exceed it fails
	// without a driver call. 0 is no limit.
	Limit mem.Bytes
	// Ascending makes cudaMalloc hand out all addresses upwards. By default only
	// the small pool's are, and the large pool's go downwards, as observed; see
	// the package's modelling choices. It decides ties and nothing else.
	Ascending bool
	// MaxSplit is max_split_size: blocks of at least this size are not split,
	// and serve no smaller request. 0 is no bound; else at least 20 MiB.
	MaxSplit mem.Bytes
	// NonSplitRounding is max_non_split_rounding_mb: how much larger than an
	// unsplittable request its block may be. 0 stands for 20 MiB.
	NonSplitRounding mem.Bytes
	// Roundup is roundup_power2_divisions for sizes in [1,2), [2,4), … MiB, the
	// first and last also for what lies beyond. Powers of two; 0 or 1 is off.
	Roundup [16]int
	// GCThreshold is garbage_collection_threshold, a share of Limit in (0,1).
	// 0 is off. Only Native collects: blocks of expandable segments are exempt
	// by PyTorch's rule.
	GCThreshold float64

	// Held, unless it is nil, is told of every range of addresses that comes to have
	// memory behind it, or has none any longer.
	Held func(at Place, size mem.Bytes, held bool)
}

// DefaultCapacity is the device memory assumed when none is given.
const DefaultCapacity = 80 * mem.GiB

// Validate reports the first option that no allocator would accept.
func (o Options) Validate() error {
	for _, v := range []struct {
		name  string
		value mem.Bytes
	}{
		{"Capacity", o.Capacity}, {"Limit", o.Limit}, {"MaxSplit", o.MaxSplit},
		{"NonSplitRounding", o.NonSplitRounding},
	} {
		if v.value < 0 || v.value > 1<<50 {
			return fmt.Errorf("baseline: option %s is %d bytes: expected 0 (the default) to 1 PiB",
				v.name, int64(v.value))
		}
	}
	if o.MaxSplit != 0 && o.MaxSplit < largeBuffer {
		return fmt.Errorf("baseline: option MaxSplit is %v: expected 0 (no bound) or at least %v",
			o.MaxSplit, largeBuffer)
	}
	for i, d := range o.Roundup {
		if d < 0 || d > 1<<20 || d&(d-1) != 0 {
			return fmt.Errorf("baseline: option Roundup[%d] is %d: expected 0 (off) or a power of two", i, d)
		}
	}
	if !(o.GCThreshold >= 0 && o.GCThreshold < 1) {
		return fmt.Errorf("baseline: option GCThreshold is %v: expected 0 (off) or a share between 0 and 1", o.GCThreshold)
	}
	return nil
}

func (o Options) withDefaults() Options {
	def := func(v *mem.Bytes, d mem.Bytes) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.Capacity, DefaultCapacity)
	def(&o.MaxSplit, unlimited)
	def(&o.NonSplitRounding, largeBuffer)
	return o
}

// Names lists the allocators New knows.
func Names() []string { return []string{"native", "expandable"} }

// New makes the allocator of that name. Unlike the two constructors it checks
// the options.
func New(name string, o Options) (Allocator, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	switch name {
	case "native":
		return NewNative(o), nil
	case "expandable":
		return NewExpandable(o), nil
	}
	return nil, fmt.Errorf("baseline: no allocator is called %q: expected one of %s", name,
		strings.Join(Names(), ", "))
}
