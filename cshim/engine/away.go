package main

/*
#include "shared.h"
*/
import "C"

import (
	"stalloc/actors/pool"
	"stalloc/actors/region"
	"stalloc/internal/mem"
)

// stalloc_engine_awake begins or ends a use of a region, or prefetches it.
//
//export stalloc_engine_awake
func stalloc_engine_awake(device C.int, tag *C.char, stream C.uint64_t, how C.int, text *C.char,
	n C.size_t) C.int {
	return answer(text, n, func() error {
		pools, err := region.Numbers([]string{C.GoString(tag)})
		if err != nil {
			return err
		}
		d := process.Load().opened[device].Load()
		switch {
		case d == nil:
			return nil // nothing was allocated there
		case d.err != nil:
			return d.err
		case how == C.STALLOC_BEGIN_AWAKE:
			return d.BeginAwake(pools[0], mem.StreamID(stream))
		case how == C.STALLOC_PREFETCH:
			return d.Prefetch(pools[0])
		}
		return d.EndAwake(pools[0], mem.StreamID(stream), pool.Closing{
			Changed: how&C.STALLOC_CHANGED != 0, All: how&C.STALLOC_ALL_LEAVES != 0,
			More: how&C.STALLOC_MORE_FOLLOW != 0})
	})
}
