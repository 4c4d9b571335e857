// Command engine is built as libstalloc_engine.so, which libstalloc.so opens on the first request.
// It exports one function per event, with integer arguments and integer errors, and has no policy
// of its own: each function converts the arguments, calls actors.Device, and converts the result.
//
// A panic must not reach C, where it would kill the training process. Every export recovers, logs
// the panic once and returns that the engine is broken; libstalloc then serves from plain driver
// allocations.
package main

/*
#cgo CFLAGS: -std=gnu11 -I${SRCDIR}/.. -I${SRCDIR}/../fast
#include "fastpath.h"
*/
import "C"

import (
	"errors"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"go.uber.org/zap"

	"stalloc/actors"
	hosts "stalloc/actors/host"
	"stalloc/cuda"
	policy "stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/live/perfetto"
	"stalloc/plan"
)

const (
	ok           = C.STALLOC_OK
	errEngine    = C.STALLOC_ERR_ENGINE
	errDriver    = C.STALLOC_ERR_DRIVER
	errMemory    = C.STALLOC_ERR_MEMORY
	errArgument  = C.STALLOC_ERR_ARGUMENT
	errPlan      = C.STALLOC_ERR_PLAN
	errAsleep    = C.STALLOC_ERR_ASLEEP
	maxDevices   = C.STALLOC_MAX_DEVICES
	serveThreads = 4 // GOMAXPROCS: more only cost memory
)

// C and Go keep the same number of events of a step; otherwise this index is out of range.
var _ = [1]struct{}{}[C.STALLOC_MAX_EVENTS-hosts.MostEvents]

// And both have the same numbers for released pools, and for those without graphs.
var _ = [1]struct{}{}[C.STALLOC_RELEASED-uint64(policy.Released)]
var _ = [1]struct{}{}[C.STALLOC_REGIONS-uint64(policy.Regions)]

// engine is the state of the process. It is set once, by start.
type engine struct {
	conf    settings
	log     *zap.Logger
	trace   *perfetto.Trace // nil: there is none
	driver  *cuda.Driver
	devices *[maxDevices]C.struct_stalloc_device

	mu     sync.Mutex // opening of devices
	opened [maxDevices]atomic.Pointer[opened]
	plans  [maxDevices]*plan.Plan // loaded before the device was opened
	closed [maxDevices]bool       // must not be opened any more
}

// opened is an open device, or the error that it could not be opened with.
type opened struct {
	*actors.Device
	host *host
	err  error
}

// process is nil until start.
var process atomic.Pointer[engine]

func start(h *C.struct_stalloc_host) error {
	if h.size != C.uint64_t(unsafe.Sizeof(*h)) || h.device != C.sizeof_struct_stalloc_device {
		return errors.New(
			"libstalloc.so and its engine are of different versions: build both together")
	}
	conf := parseSettings(C.GoString(h.name), C.GoString(h.conf))
	e := &engine{
		conf:    conf,
		log:     conf.newLogger(),
		driver:  cuda.FromTable(unsafe.Pointer(h.driver)),
		devices: (*[maxDevices]C.struct_stalloc_device)(unsafe.Pointer(h.devices)),
	}
	e.trace = conf.watch(e.log)
	runtime.GOMAXPROCS(min(serveThreads, runtime.NumCPU()))
	process.Store(e)
	return nil
}

func (e *engine) device(ordinal int) (*opened, error) {
	if d := e.opened[ordinal].Load(); d != nil {
		return d, d.err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if d := e.opened[ordinal].Load(); d != nil {
		return d, d.err
	}
	if e.closed[ordinal] {
		return nil, actors.ErrRetired
	}
	d := &opened{host: newHost(&e.devices[ordinal])}
	var dev *cuda.Device
	var options actors.Options
	if dev, d.err = e.driver.Device(ordinal); d.err == nil {
		options, d.err = e.conf.options(e.log.With(zap.Int("device", ordinal)), dev)
	}
	options.Ordinal, options.Trace, options.Plan = ordinal, e.trace, e.plans[ordinal]
	if d.err == nil {
		d.Device, d.err = actors.Open(dev, d.host, options)
	}
	switch {
	case d.err == nil:
		e.share(ordinal, d)
	case errors.Is(d.err, driver.ErrNoSuchDevice):
		d.err = failure{d.err, errArgument} // the driver alone cannot serve it either
	default:
		d.err = failure{d.err, errEngine}
	}
	e.opened[ordinal].Store(d)
	return d, d.err
}

// share makes a newly opened device and all open ones peers: PyTorch expects that devices which can
// access each other's memory do. The engine's mutex is held.
func (e *engine) share(ordinal int, d *opened) {
	for o := range e.serving(-1) {
		other := int(o.host.device.ordinal)
		if err := errors.Join(o.Share(ordinal), d.Share(other)); err != nil {
			e.log.Error("copies and kernels between two devices will fail: start one process per device, or do without stalloc",
				zap.Int("device", ordinal), zap.Int("other", other), zap.Error(err))
		}
	}
}

// serving yields the device, or every open one if ordinal is negative.
func (e *engine) serving(ordinal int) iter.Seq[*opened] {
	return func(yield func(*opened) bool) {
		for i := range e.opened {
			d := e.opened[i].Load()
			if (ordinal < 0 || ordinal == i) && d != nil && d.err == nil && !yield(d) {
				return
			}
		}
	}
}

// close refuses further opens of one device, or of all (-1).
func (e *engine) close(ordinal int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.closed {
		e.closed[i] = e.closed[i] || ordinal < 0 || ordinal == i
	}
}

func addr(a C.uint64_t) mem.Addr { return mem.Addr(a) }

func main() {}
