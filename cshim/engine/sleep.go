package main

/*
#include "shared.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"stalloc/actors"
	"stalloc/actors/region"
	"stalloc/internal/driver"
)

//export stalloc_engine_region
func stalloc_engine_region(tag *C.char, private *C.uint64_t, text *C.char, n C.size_t) C.int {
	return answer(text, n, func() error {
		p, err := region.Number(C.GoString(tag))
		*private = C.uint64_t(p)
		return err
	})
}

// stalloc_engine_sleep pauses or resumes regions, or all memory, of one device or of all in use.
//
//export stalloc_engine_sleep
func stalloc_engine_sleep(device C.int, tags **C.char, count C.size_t, how C.int, text *C.char,
	n C.size_t) C.int {
	var names []string
	for _, tag := range unsafe.Slice(tags, int(count)) {
		names = append(names, C.GoString(tag))
	}
	change := func(d *opened, pools []uint64) error {
		switch {
		case how == C.STALLOC_RESUME && d.err != nil:
			return nil // nothing sleeps there
		case how == C.STALLOC_RESUME:
			return d.Resume(pools)
		case d.err != nil:
			return fmt.Errorf("stalloc's engine does not serve the device, and plain driver "+
				"allocations cannot sleep: %w", d.err)
		}
		return d.Pause(pools, how == C.STALLOC_BACKUP_HOST)
	}
	return answer(text, n, func() error {
		pools, err := region.Numbers(names)
		if err != nil {
			return err
		}
		var all []outcome
		for i := range process.Load().opened {
			d := process.Load().opened[i].Load()
			if d == nil || device >= 0 && int(device) != i ||
				errors.Is(d.err, driver.ErrNoSuchDevice) {
				continue
			}
			x := outcome{device: i, err: change(d, pools)}
			if d.err == nil {
				x.partly, x.asleep = d.Sleeps(pools)
			}
			all = append(all, x)
		}
		return told(all, device < 0)
	})
}

// stalloc_engine_export writes a word for each handle: file descriptor (or x and a fabric handle),
// size, number. It returns the length of the text, and writes nothing if text and NUL do not fit.
//
//export stalloc_engine_export
func stalloc_engine_export(a C.uint64_t, offset *C.uint64_t, pieces *C.char, room C.size_t,
	text *C.char, n C.size_t) C.int {
	var words strings.Builder
	result := answer(text, n, func() error {
		for d := range process.Load().serving(-1) {
			at, handles, err := d.Export(addr(a))
			if errors.Is(err, actors.ErrUnknown) {
				continue
			}
			*offset = C.uint64_t(at)
			for _, h := range handles {
				name := strconv.Itoa(h.FD)
				if h.Fabric != "" {
					name = fmt.Sprintf("x%x", h.Fabric)
				}
				fmt.Fprintf(&words, " %s/%d/%d", name, h.Size, h.Number)
			}
			return err
		}
		return actors.ErrUnknown
	})
	if result != ok {
		return result
	}
	if C.size_t(words.Len()) < room {
		write(words.String(), pieces, room)
	}
	return C.int(words.Len())
}

// outcome is the result of a pause or resume on one device.
type outcome struct {
	device int
	err    error
	asleep bool
	partly bool // only some of its memory sleeps
}

// told joins the outcomes into one error, nil if none failed. For several devices it says of each
// whether it sleeps, because a pause of one device is not undone when another fails. With each
// (all devices were meant) closed devices are left out.
func told(all []outcome, each bool) error {
	open := all
	if each {
		closed := func(x outcome) bool { return errors.Is(x.err, actors.ErrRetired) }
		open = slices.DeleteFunc(slices.Clone(all), closed)
	}
	first := slices.IndexFunc(open, func(x outcome) bool { return x.err != nil })
	if first < 0 {
		return nil
	}
	if len(open) == 1 {
		return open[0].err
	}
	var words []string
	for _, x := range open {
		state := fmt.Sprintf("device %d is awake", x.device)
		switch {
		case x.asleep:
			state = fmt.Sprintf("device %d sleeps", x.device)
		case x.partly:
			state = fmt.Sprintf("device %d sleeps in part", x.device)
		}
		if x.err != nil {
			state = fmt.Sprintf("%s: %v", state, x.err)
		}
		words = append(words, state)
	}
	return failure{errors.New(strings.Join(words, "; ")), code(open[first].err)}
}
