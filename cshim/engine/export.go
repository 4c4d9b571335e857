package main

/*
#include "shared.h"
#include "stalloc.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"go.uber.org/zap"

	"stalloc/actors"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// write copies a text and its final NUL into C's buffer.
func write(text string, to *C.char, n C.size_t) {
	if to == nil || n == 0 {
		return
	}
	buffer := unsafe.Slice((*byte)(unsafe.Pointer(to)), int(n))
	buffer[copy(buffer[:n-1], text)] = 0
}

// guard is deferred by every export: a panic becomes the answer errEngine.
func guard(result *C.int, text *C.char, n C.size_t) {
	r := recover()
	if r == nil {
		return
	}
	if e := the.Load(); e != nil {
		e.log.Error("a bug in the engine was caught", zap.Any("panic", r), zap.Stack("stack"))
	}
	write(fmt.Sprint(r), text, n)
	*result = errEngine
}

func code(err error) C.int {
	switch {
	case err == nil:
		return ok
	case errors.Is(err, driver.ErrOutOfMemory):
		return errMemory
	case errors.Is(err, actors.ErrBroken), errors.Is(err, actors.ErrRetired):
		return errEngine
	case errors.Is(err, actors.ErrUnknown):
		return errArgument
	}
	return errDriver
}

//export stalloc_engine_start
func stalloc_engine_start(h *C.struct_stalloc_host, text *C.char, n C.size_t) (result C.int) {
	defer guard(&result, text, n)
	if err := start(h); err != nil {
		write(err.Error(), text, n)
		return errEngine
	}
	return ok
}

//export stalloc_engine_alloc
func stalloc_engine_alloc(s *C.struct_stalloc_stream, pool, asked C.uint64_t, out *C.uint64_t, text *C.char, n C.size_t) (result C.int) {
	defer guard(&result, text, n)
	d, err := the.Load().device(int(s.device.ordinal))
	if err != nil {
		write(err.Error(), text, n)
		if errors.Is(err, driver.ErrNoSuchDevice) {
			return errArgument // neither can the driver alone serve it
		}
		return errEngine
	}
	a, err := d.Serve(mem.StreamID(s.id), uint64(pool), mem.Bytes(asked))
	if err != nil {
		write(err.Error(), text, n)
		return code(err)
	}
	*out = C.uint64_t(a)
	return ok
}

//export stalloc_engine_free
func stalloc_engine_free(a C.uint64_t, freed *C.struct_stalloc_freed) (result C.int) {
	defer guard(&result, nil, 0)
	found := the.Load().ofAddr(func(d *opened) bool {
		f, err := d.Free(addr(a))
		if err != nil {
			return false
		}
		*freed = C.struct_stalloc_freed{asked: C.uint64_t(f.Asked), device: d.host.device.ordinal}
		return true
	})
	if !found {
		return errArgument
	}
	return ok
}

//export stalloc_engine_record
func stalloc_engine_record(a, stream C.uint64_t) (result C.int) {
	defer guard(&result, nil, 0)
	if !the.Load().ofAddr(func(d *opened) bool { return d.Record(addr(a), mem.StreamID(stream)) == nil }) {
		return errArgument
	}
	return ok
}

//export stalloc_engine_base
func stalloc_engine_base(a C.uint64_t, start, size *C.uint64_t) (result C.int) {
	defer guard(&result, nil, 0)
	found := the.Load().ofAddr(func(d *opened) bool {
		at, n, err := d.Find(addr(a))
		*start, *size = C.uint64_t(at), C.uint64_t(n)
		return err == nil
	})
	if !found {
		return errArgument
	}
	return ok
}

//export stalloc_engine_step
func stalloc_engine_step(device C.int, text *C.char, n C.size_t) (result C.int) {
	defer guard(&result, text, n)
	return tell(device, text, n, func(d *opened) error { return d.Step() })
}

// tell tells one device, or each, and writes what went wrong to text.
func tell(device C.int, text *C.char, n C.size_t, what func(*opened) error) C.int {
	err := the.Load().each(int(device), what)
	if err != nil {
		write(err.Error(), text, n)
	}
	return code(err)
}

//export stalloc_engine_close
func stalloc_engine_close(device C.int, text *C.char, n C.size_t) (result C.int) {
	defer guard(&result, text, n)
	err := the.Load().close(int(device))
	if err != nil {
		write(err.Error(), text, n)
	}
	return code(err)
}

//export stalloc_engine_trim
func stalloc_engine_trim(device C.int, pool C.uint64_t) (result C.int) {
	defer guard(&result, nil, 0)
	return code(the.Load().each(int(device), func(d *opened) error { return d.Trim(uint64(pool)) }))
}

//export stalloc_engine_limit
func stalloc_engine_limit(device C.int, fraction C.double) (result C.int) {
	defer guard(&result, nil, 0)
	d, err := the.Load().device(int(device))
	if err == nil {
		err = d.Limit(float64(fraction))
	}
	return code(err)
}

//export stalloc_engine_stats
func stalloc_engine_stats(device C.int, out *C.struct_stalloc_stats, resetPeak C.int) (result C.int) {
	defer guard(&result, nil, 0)
	return code(the.Load().each(int(device), func(d *opened) error {
		if resetPeak != 0 {
			return d.ResetPeak()
		}
		s := d.Stats()
		*out = C.struct_stalloc_stats{
			reserved: C.uint64_t(s.Reserved), peak_reserved: C.uint64_t(s.PeakReserved),
			steps: C.uint64_t(s.Steps), plan_generation: C.uint64_t(s.Generation),
			driver_calls: C.uint64_t(s.DriverCalls), driver_ns: C.uint64_t(s.DriverTime.Nanoseconds()),
			retries: C.uint64_t(s.Retries), lost_events: C.uint64_t(s.DroppedEvents),
			native_peak_reserved: C.uint64_t(s.Native.PeakReserved), native_steps: C.uint64_t(s.Native.Steps),
		}
		if s.Native.OutOfMemory {
			out.native_ooms = 1
		}
		return nil
	}))
}

//export stalloc_engine_explain
func stalloc_engine_explain(device C.int, text *C.char, n C.size_t) (result C.int) {
	defer guard(&result, text, n)
	explained := "stalloc has allocated nothing on this device"
	err := the.Load().each(int(device), func(d *opened) error {
		explained = d.Explain()
		return nil
	})
	if err != nil {
		return code(err)
	}
	write(explained, text, n)
	return C.int(len(explained))
}
