package main

/*
#include "shared.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"stalloc/stream"
)

// publish enters a tape into the table that frees search by address.
func (e *engine) publish(t *C.struct_stalloc_tape) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.arenas {
		if e.arenas[i].Load() == nil {
			e.arenas[i].Store(t)
			if n := uint32(i + 1); n > e.count.Load() {
				e.count.Store(n)
			}
			return
		}
	}
	panic(fmt.Sprintf("more than %d arenas", maxArenas))
}

// republish puts another tape over the same arena in a tape's place.
func (e *engine) republish(old, t *C.struct_stalloc_tape) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.arenas {
		if e.arenas[i].Load() == old {
			e.arenas[i].Store(t)
		}
	}
}

func (e *engine) unpublish(t *C.struct_stalloc_tape) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.arenas {
		if e.arenas[i].Load() == t {
			e.arenas[i].Store(nil)
		}
	}
}

// checkLayout compares the structs that Go and C share, field by field.
func checkLayout() error {
	var (
		entry  stream.Entry
		cEntry C.struct_stalloc_entry
		live   stream.Live
		cLive  C.struct_stalloc_live
		state  stream.State
		cState C.struct_stalloc_state
	)
	for _, c := range []struct {
		name   string
		go_, c uintptr
	}{
		{"entry", unsafe.Sizeof(entry), unsafe.Sizeof(cEntry)},
		{"entry.offset", unsafe.Offsetof(entry.Offset), unsafe.Offsetof(cEntry.offset)},
		{"entry.slot", unsafe.Offsetof(entry.Slot), unsafe.Offsetof(cEntry.slot)},
		{"entry.place", unsafe.Offsetof(entry.Place), unsafe.Offsetof(cEntry.place)},
		{"live", unsafe.Sizeof(live), unsafe.Sizeof(cLive)},
		{"live.flags", unsafe.Offsetof(live.Flags), unsafe.Offsetof(cLive.flags)},
		{"live.asked", unsafe.Offsetof(live.Asked), unsafe.Offsetof(cLive.asked)},
		{"state", unsafe.Sizeof(state), unsafe.Sizeof(cState)},
		{"state.cursor", unsafe.Offsetof(state.Cursor), unsafe.Offsetof(cState.cursor)},
		{"state.owed", unsafe.Offsetof(state.Owed), unsafe.Offsetof(cState.owed)},
		{"state.partial", unsafe.Offsetof(state.Partial), unsafe.Offsetof(cState.partial)},
		{"state.off", unsafe.Offsetof(state.Off), unsafe.Offsetof(cState.off)},
		{"state.live", unsafe.Offsetof(state.LiveN), unsafe.Offsetof(cState.live)},
		{"state.persist", unsafe.Offsetof(state.PersistN), unsafe.Offsetof(cState.persist)},
		{"state.hits", unsafe.Offsetof(state.Hits), unsafe.Offsetof(cState.hits)},
		{"state.misses", unsafe.Offsetof(state.Misses), unsafe.Offsetof(cState.misses)},
		{"state.freed", unsafe.Offsetof(state.Freed), unsafe.Offsetof(cState.freed)},
		{"state.log", unsafe.Offsetof(state.Log), unsafe.Offsetof(cState.log)},
		{"freeing", unsafe.Sizeof(state.Log[0]), unsafe.Sizeof(cState.log[0])},
		{"state.owed_at", unsafe.Offsetof(state.OwedAt), unsafe.Offsetof(cState.owed_at)},
	} {
		if c.go_ != c.c {
			return fmt.Errorf("struct %s differs between Go and C: %d and %d", c.name, c.go_, c.c)
		}
	}
	return nil
}
