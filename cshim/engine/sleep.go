package main

/*
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"strconv"
	"unsafe"

	"stalloc/actors"
)

//export stalloc_engine_region
func stalloc_engine_region(tag *C.char, pool *C.uint64_t, text *C.char, n C.size_t) C.int {
	return answer(text, n, func() error {
		p, err := actors.Region(C.GoString(tag))
		*pool = C.uint64_t(p)
		return err
	})
}

//export stalloc_engine_pause
func stalloc_engine_pause(device C.int, tags **C.char, count C.size_t, keep C.bool, text *C.char, n C.size_t) C.int {
	return ofRegions(device, tags, count, text, n, func(d *opened, pools []uint64) error { return d.Pause(pools, bool(keep)) })
}

//export stalloc_engine_resume
func stalloc_engine_resume(device C.int, tags **C.char, count C.size_t, text *C.char, n C.size_t) C.int {
	return ofRegions(device, tags, count, text, n, func(d *opened, pools []uint64) error { return d.Resume(pools) })
}

// stalloc_engine_export writes a word for each handle: file descriptor, or x and a fabric's name, size, number. It returns how
// long that is, and writes nothing where there is no room for it and a NUL.
//
//export stalloc_engine_export
func stalloc_engine_export(a C.uint64_t, offset *C.uint64_t, pieces *C.char, room C.size_t, text *C.char, n C.size_t) C.int {
	words := ""
	result := answer(text, n, func() error {
		for d := range the.Load().serving(-1) {
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
				words += fmt.Sprintf(" %s/%d/%d", name, h.Size, h.Number)
			}
			return err
		}
		return actors.ErrUnknown
	})
	if result != ok {
		return result
	}
	if C.size_t(len(words)) < room {
		write(words, pieces, room)
	}
	return C.int(len(words))
}

// ofRegions does something with the private pools of regions, on a device or on each.
func ofRegions(device C.int, tags **C.char, count C.size_t, text *C.char, n C.size_t, what func(*opened, []uint64) error) C.int {
	var names []string
	for _, tag := range unsafe.Slice(tags, int(count)) {
		names = append(names, C.GoString(tag))
	}
	pools, err := actors.RegionsOf(names)
	if err != nil {
		return answer(text, n, func() error { return err })
	}
	return each(device, text, n, func(d *opened) error { return what(d, pools) })
}
