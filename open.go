package stalloc

import (
	"errors"
	"fmt"
	"io/fs"

	"go.uber.org/zap"

	"stalloc/actors"
	"stalloc/cuda/sim"
	"stalloc/engine/onerange"
	"stalloc/internal/without"
	"stalloc/plan"
	"stalloc/replay/shadow"
)

// Options choose a device and how it is served. The zero value is the first GPU,
// planned beside the program, without a word in any log.
type Options struct {
	// Ordinal is the GPU's number, as CUDA_VISIBLE_DEVICES numbers them. It is
	// looked at if neither Simulated nor Device is set.
	Ordinal int
	// Driver is the path of the CUDA driver library; empty: libcuda.so.1, as the
	// dynamic linker finds it.
	Driver string
	// Simulated, if not zero, opens a simulated device with this much memory.
	Simulated Bytes
	// Device, if not nil, is used instead of a GPU. Close closes it.
	Device Device

	// Planning says when plans are made, if at all.
	Planning Planning
	// PlanFile names a plan that an earlier run saved: the steps that came again. If the
	// file exists, they are planned anew, around this run's memory, as soon as there is
	// room. Steps that this run does not make cost a comparison. If the file does not exist,
	// nothing happens; one that is there and is no plan is an error.
	PlanFile string
	// Limit is the most physical memory to take; zero: no limit but the device's.
	Limit Bytes
	// Share says whether memory of a GPU is made so that Export can name it; see Sharing. The
	// simulated device's always is, and a Device of one's own is as it is.
	Share Sharing
	// Log takes what is worth telling: plans made and activated at Info, trouble
	// above. Nil: nothing is logged.
	Log *zap.Logger
	// Holders, if not nil, tells which processes hold memory of a GPU, given its
	// UUID, for the log and for explanations. A Device of one's own is asked about
	// if it has a method UUID as *cuda.Device has. stalloc/cuda/nvml has a function
	// that fits; it is not set by default because it needs cgo.
	Holders func(uuid string) ([]Holder, error)
}

// Planning says when plans are made.
type Planning uint8

const (
	// PlanBeside makes plans on a goroutine of their own, while the next steps
	// run. This is what a training loop wants.
	PlanBeside Planning = iota
	// PlanAtStep makes them inside Step, on the caller's goroutine: for replays
	// and tests, where no time passes between steps and every run shall be alike.
	PlanAtStep
	// PlanNever looks at steps and plans none: the pool serves everything.
	PlanNever
)

// Open opens a device. The error says what is missing and the remedy. Every
// Allocator has an address range of its own, so several may be open at once, also
// on one device.
func Open(o Options) (*Allocator, error) {
	if o.Simulated < 0 || o.Limit < 0 {
		return nil, fmt.Errorf("stalloc: Options.Simulated is %v and Options.Limit %v: expected none below zero", o.Simulated, o.Limit)
	}
	if o.Planning > PlanNever {
		return nil, fmt.Errorf("stalloc: Options.Planning is %d: expected PlanBeside, PlanAtStep or PlanNever", o.Planning)
	}
	if o.Share > ShareFabric {
		return nil, fmt.Errorf("stalloc: Options.Share is %d: expected ShareOff, ShareFD or ShareFabric", o.Share)
	}
	warm, err := o.plan()
	if err != nil {
		return nil, fmt.Errorf("stalloc: %w", err)
	}
	dev, err := o.device()
	if err != nil {
		return nil, fmt.Errorf("stalloc: %w", err)
	}
	var off without.Set
	if o.Planning == PlanNever {
		off = without.Plans
	}
	options := actors.Options{
		Log: o.Log, Range: onerange.Config{Limit: o.Limit}, Plan: warm, Holders: o.holders(dev),
		Without: off, Inline: o.Planning == PlanAtStep,
	}
	if o.Planning == PlanBeside {
		options.Shadow = shadow.New
	}
	local, err := actors.OpenLocal(dev, options)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("stalloc: %w", err), dev.Close())
	}
	return &Allocator{local: local, device: dev}, nil
}

// plan reads the plan of an earlier run, if there is one.
func (o *Options) plan() (*plan.Plan, error) {
	if o.PlanFile == "" || o.Planning == PlanNever {
		return nil, nil
	}
	p, err := plan.ReadFile(o.PlanFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return p, err
}

// device opens what the options name.
func (o *Options) device() (Device, error) {
	switch {
	case o.Device != nil:
		return o.Device, nil
	case o.Simulated > 0:
		return sim.New(sim.Config{Capacity: o.Simulated}), nil
	}
	return o.gpu()
}

// holders asks Options.Holders about a device that has a UUID.
func (o *Options) holders(dev Device) func() ([]Holder, error) {
	gpu, ok := dev.(interface{ UUID() (string, error) })
	if o.Holders == nil || !ok {
		return nil
	}
	return func() ([]Holder, error) {
		uuid, err := gpu.UUID()
		if err != nil {
			return nil, err
		}
		return o.Holders(uuid)
	}
}
