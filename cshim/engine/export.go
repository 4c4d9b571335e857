package main

/*
#include "shared.h"
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

// answer runs an export's work and returns its result code. A panic becomes errEngine.
func answer(text *C.char, n C.size_t, what func() error) (result C.int) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		if e := process.Load(); e != nil {
			e.log.Error("a bug in the engine was caught", zap.Any("panic", r), zap.Stack("stack"))
		}
		write(fmt.Sprint(r), text, n)
		result = errEngine
	}()
	err := what()
	if err != nil {
		write(err.Error(), text, n)
	}
	return code(err)
}

// failure is an error with a result code of its own.
type failure struct {
	error
	code C.int
}

// answerAs is answer for work whose errors all have one result code.
func answerAs(code C.int, text *C.char, n C.size_t, what func() error) C.int {
	return answer(text, n, func() error {
		if err := what(); err != nil {
			return failure{err, code}
		}
		return nil
	})
}

func code(err error) C.int {
	var f failure
	switch {
	case err == nil:
		return ok
	case errors.As(err, &f):
		return f.code
	case errors.Is(err, driver.ErrOutOfMemory):
		return errMemory
	case errors.Is(err, actors.ErrBroken), errors.Is(err, actors.ErrRetired):
		return errEngine
	case errors.Is(err, actors.ErrAsleep):
		return errAsleep
	case errors.Is(err, actors.ErrUnknown), errors.Is(err, actors.ErrNoRegion):
		return errArgument
	}
	return errDriver
}

//export stalloc_engine_start
func stalloc_engine_start(h *C.struct_stalloc_host, text *C.char, n C.size_t) C.int {
	return answerAs(errEngine, text, n, func() error { return start(h) })
}

//export stalloc_engine_alloc
func stalloc_engine_alloc(s *C.struct_stalloc_stream, pool C.uint64_t, asked C.uint64_t,
	out *C.uint64_t, text *C.char, n C.size_t) C.int {
	return of(C.int(s.device.ordinal), text, n, func(d *opened) error {
		id, size := mem.StreamID(s.id), mem.Bytes(asked)
		if *out != 0 {
			return d.ServeAt(id, uint64(pool), size, addr(*out))
		}
		a, err := d.Serve(id, uint64(pool), size)
		*out = C.uint64_t(a)
		return err
	})
}

//export stalloc_engine_free
func stalloc_engine_free(a C.uint64_t, deferred C.bool, freed *C.struct_stalloc_freed) C.int {
	return ofAddr(func(d *opened) error {
		free := d.Free
		if deferred {
			free = d.FreeDeferred
		}
		f, err := free(addr(a))
		if err == nil {
			*freed = C.struct_stalloc_freed{asked: C.uint64_t(f.Asked),
				device: d.host.device.ordinal}
		}
		return err
	})
}

//export stalloc_engine_record_stream
func stalloc_engine_record_stream(a, stream C.uint64_t) C.int {
	return ofAddr(func(d *opened) error { return d.Record(addr(a), mem.StreamID(stream)) })
}

//export stalloc_engine_base
func stalloc_engine_base(a C.uint64_t, start, size *C.uint64_t) C.int {
	return ofAddr(func(d *opened) error {
		at, n, err := d.Find(addr(a))
		*start, *size = C.uint64_t(at), C.uint64_t(n)
		return err
	})
}

// ofAddr asks each open device until one knows the address.
func ofAddr(what func(*opened) error) C.int {
	return answer(nil, 0, func() error {
		for d := range process.Load().serving(-1) {
			if what(d) == nil {
				return nil
			}
		}
		return actors.ErrUnknown
	})
}

//export stalloc_engine_step
func stalloc_engine_step(device C.int, text *C.char, n C.size_t) C.int {
	return each(device, text, n, func(d *opened) error { return d.Step() })
}

//export stalloc_engine_close
func stalloc_engine_close(device C.int, text *C.char, n C.size_t) C.int {
	process.Load().close(int(device))
	return each(device, text, n, func(d *opened) error { return d.Retire() })
}

//export stalloc_engine_trim
func stalloc_engine_trim(device C.int, pool C.uint64_t) C.int {
	return each(device, nil, 0, func(d *opened) error { return d.Trim(uint64(pool)) })
}

//export stalloc_engine_capture
func stalloc_engine_capture(device C.int, pool C.uint64_t) C.int {
	return of(device, nil, 0, func(d *opened) error { return d.Capture(uint64(pool)) })
}

//export stalloc_engine_limit
func stalloc_engine_limit(device C.int, fraction C.double, text *C.char, n C.size_t) C.int {
	return of(device, text, n, func(d *opened) error { return d.Limit(float64(fraction)) })
}

//export stalloc_engine_stats
func stalloc_engine_stats(device C.int, out *C.struct_stalloc_stats, resetPeak C.int) C.int {
	return each(device, nil, 0, func(d *opened) error {
		if resetPeak != 0 {
			return d.ResetPeak()
		}
		s := d.Stats()
		*out = C.struct_stalloc_stats{
			reserved: C.uint64_t(s.Reserved), peak_reserved: C.uint64_t(s.PeakReserved),
			steps: C.uint64_t(s.Steps), plan_generation: C.uint64_t(s.Generation),
			driver_calls: C.uint64_t(s.DriverCalls),
			driver_ns:    C.uint64_t(s.DriverTime.Nanoseconds()),
			retries:      C.uint64_t(s.Retries), lost_events: C.uint64_t(s.DroppedEvents),
			native_peak_reserved: C.uint64_t(s.Native.PeakReserved),
			native_steps:         C.uint64_t(s.Native.Steps),
			asleep:               C.uint64_t(s.Asleep), backup: C.uint64_t(s.Backup),
			waits: C.uint64_t(s.Waits.Waits), wait_ns: C.uint64_t(s.Waits.Time),
			lent: C.uint64_t(s.Lent),
		}
		if s.Native.OutOfMemory {
			out.native_ooms = 1
		}
		return nil
	})
}

//export stalloc_engine_explain
func stalloc_engine_explain(device C.int, text *C.char, n C.size_t) C.int {
	explained := "stalloc has allocated nothing on this device"
	result := each(device, text, n, func(d *opened) error {
		explained = d.Explain()
		return nil
	})
	if result != ok {
		return result
	}
	write(explained, text, n)
	return C.int(len(explained))
}

// stalloc_engine_nudge only makes the calling thread enter Go, so that a waiting collector notices
// it (cshim/fast/lock.h).
//
//export stalloc_engine_nudge
func stalloc_engine_nudge() C.int { return ok }

// of calls what for the device, and opens it if nobody has asked it for memory yet.
func of(device C.int, text *C.char, n C.size_t, what func(*opened) error) C.int {
	return answer(text, n, func() error {
		d, err := process.Load().device(int(device))
		if err != nil {
			return err
		}
		return what(d)
	})
}

// each calls what for the device, or for every open device if it is negative, and returns the first
// error.
func each(device C.int, text *C.char, n C.size_t, what func(*opened) error) C.int {
	return answer(text, n, func() (first error) {
		for d := range process.Load().serving(int(device)) {
			if err := what(d); err != nil && first == nil {
				first = err
			}
		}
		return first
	})
}
