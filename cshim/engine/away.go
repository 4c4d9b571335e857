package main

/*
#include <stddef.h>
#include <stdint.h>
*/
import "C"

import (
	"stalloc/actors/pool"
	"stalloc/actors/region"
	"stalloc/internal/mem"
)

// What stalloc_engine_end_awake is told, as in stalloc.h.
const (
	changed    = 1
	allLeaves  = 2
	moreFollow = 4
)

//export stalloc_engine_begin_awake
func stalloc_engine_begin_awake(device C.int, tag *C.char, stream C.uint64_t, text *C.char,
	n C.size_t) C.int {
	return ofRegion(device, tag, text, n, func(d *opened, region uint64) error {
		return d.BeginAwake(region, mem.StreamID(stream))
	})
}

//export stalloc_engine_end_awake
func stalloc_engine_end_awake(device C.int, tag *C.char, stream C.uint64_t, how C.int,
	text *C.char, n C.size_t) C.int {
	return ofRegion(device, tag, text, n, func(d *opened, region uint64) error {
		return d.EndAwake(region, mem.StreamID(stream), pool.Closing{Changed: how&changed != 0,
			All: how&allLeaves != 0, More: how&moreFollow != 0})
	})
}

//export stalloc_engine_prefetch
func stalloc_engine_prefetch(device C.int, tag *C.char, text *C.char, n C.size_t) C.int {
	return ofRegion(device, tag, text, n, func(d *opened, region uint64) error {
		return d.Prefetch(region)
	})
}

// ofRegion calls what with the private pool of a region, if the device is in use.
func ofRegion(device C.int, tag *C.char, text *C.char, n C.size_t,
	what func(*opened, uint64) error) C.int {
	return answer(text, n, func() error {
		pools, err := region.Numbers([]string{C.GoString(tag)})
		if err != nil {
			return err
		}
		d := process.Load().opened[device].Load()
		if d == nil {
			return nil // nothing was allocated there
		}
		if d.err != nil {
			return d.err
		}
		return what(d, pools[0])
	})
}
