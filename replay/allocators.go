package replay

import (
	"context"
	"fmt"
	"strings"

	"stalloc/actors"
	"stalloc/engine/gmlake"
	"stalloc/engine/onerange"
	"stalloc/internal/mem"
	"stalloc/internal/without"
	"stalloc/trace"
)

// Config is how a run is set up.
type Config struct {
	Capacity  mem.Bytes       // memory of the simulated device
	FragLimit mem.Bytes       // gmlake only: smaller requests are not stitched
	Warm      bool            // start with what an earlier run has left, for allocators that plan
	Without   without.Set     // stalloc only: mechanisms that are switched off
	Range     onerange.Config // stalloc only: its price; the zero value is the default
	// paper only: as published, memory serves again at its free, whatever other streams use it
	IgnoreStreams bool
	Unwatched     bool // whether blocks share memory is not checked, which takes time

	held func(addr mem.Addr, size mem.Bytes, held bool) // see Follow; nil for nobody
}

// DefaultFragLimit is GMLake's own default.
const DefaultFragLimit = 512 * mem.MiB

// Allocator is an allocator that traces can be replayed through.
type Allocator struct {
	Name  string
	Plans bool // has a warm mode
	// New sets up one run. A warm one replays tr once before, which takes time and
	// ends with the context, for what that run leaves to later ones.
	New func(ctx context.Context, tr *trace.Trace, c Config) (Target, error)
}

// Allocators are all of them, in the order they are shown.
var Allocators = []Allocator{
	simulated("native"),
	simulated("expandable"),
	theirs(),
	published(),
	ours(),
}

// Names lists the names of Allocators.
func Names() []string {
	names := make([]string, len(Allocators))
	for i, a := range Allocators {
		names[i] = a.Name
	}
	return names
}

// Lookup returns the allocator called name. The error lists the names there are.
func Lookup(name string) (Allocator, error) {
	for _, a := range Allocators {
		if a.Name == name {
			return a, nil
		}
	}
	return Allocator{}, fmt.Errorf("unknown allocator %q: choose from %s", name,
		strings.Join(Names(), ", "))
}

// Replay drives tr through a new instance of a.
func (a Allocator) Replay(ctx context.Context, tr *trace.Trace, c Config,
	progress func(done, total int)) (Result, error) {
	c.Warm = c.Warm && a.Plans && !c.Without.Has(without.Plans)
	target, err := a.New(ctx, tr, c)
	if err != nil {
		return Result{}, err
	}
	r, err := Run(ctx, tr, target, progress)
	r.Allocator = a.Name
	if a.Plans && c.Without.Has(without.Plans) {
		r.Allocator += "-noplan"
	}
	if c.Warm {
		r.Mode = Warm
	}
	return r, err
}

// ours makes the list entry of the live allocator, its actors over a simulated
// device. A warm run is the second of two, and begins with the plan of the first.
func ours() Allocator {
	return Allocator{Name: "stalloc", Plans: true,
		New: func(ctx context.Context, tr *trace.Trace, c Config) (Target, error) {
			options := actors.Options{Without: c.Without, Range: c.Range}
			if !c.Warm {
				return start(tr, c, options)
			}
			earlier := c
			earlier.held = nil
			first, err := start(tr, earlier, options)
			if err != nil {
				return nil, err
			}
			if _, err = Run(ctx, tr, first, nil); err != nil {
				return nil, fmt.Errorf("the first of two runs: %w", err)
			}
			options.Plan = first.plan
			return start(tr, c, options)
		}}
}

// theirs makes the list entry of GMLake's algorithm behind the same actors.
func theirs() Allocator {
	return Allocator{Name: "gmlake",
		New: func(_ context.Context, tr *trace.Trace, c Config) (Target, error) {
			if c.FragLimit < 0 {
				return nil, fmt.Errorf("a least size of %d bytes to stitch: give none or more",
					int64(c.FragLimit))
			}
			lake := gmlake.DefaultConfig()
			lake.FragLimit = c.FragLimit
			return start(tr, c, actors.Options{GMLake: &lake})
		}}
}
