package plan

import (
	"fmt"
	"sort"

	"stalloc/internal/mem"
)

// Validate checks a placement: every buffer inside [0, capacity), no two
// buffers live at one tick overlapping. It shares no code with the solver: it
// walks the event axis with the live buffers kept in order of offset, where a
// new buffer can only collide with its two neighbours.
func Validate(b []Buffer, offsets []mem.Offset, capacity mem.Bytes) error {
	if len(offsets) != len(b) {
		return fmt.Errorf("plan: %d offsets for %d buffers: expected one each", len(offsets), len(b))
	}
	type event struct {
		at     mem.Tick
		start  bool
		buffer int
	}
	var events []event
	for i, x := range b {
		if x.Size < 0 {
			return fmt.Errorf("plan: buffer %d has size %d: expected zero or more", i, x.Size)
		}
		if x.Size == 0 || x.Lower >= x.Upper {
			continue
		}
		if offsets[i] < 0 || mem.Bytes(offsets[i]) > capacity-x.Size {
			return fmt.Errorf("plan: buffer %d at offset %d with %d bytes lies outside the capacity of %d bytes",
				i, offsets[i], x.Size, capacity)
		}
		events = append(events, event{x.Lower, true, i}, event{x.Upper, false, i})
	}
	sort.Slice(events, func(i, j int) bool {
		if events[i].at != events[j].at {
			return events[i].at < events[j].at
		}
		if events[i].start != events[j].start {
			return !events[i].start
		}
		return events[i].buffer < events[j].buffer
	})
	end := func(i int) mem.Offset { return offsets[i] + mem.Offset(b[i].Size) }
	var live []int // by offset
	for _, e := range events {
		at := sort.Search(len(live), func(k int) bool { return offsets[live[k]] >= offsets[e.buffer] })
		if !e.start {
			live = append(live[:at], live[at+1:]...)
			continue
		}
		for _, k := range []int{at - 1, at} {
			if k < 0 || k >= len(live) {
				continue
			}
			if o := live[k]; offsets[o] < end(e.buffer) && offsets[e.buffer] < end(o) {
				return fmt.Errorf("plan: buffers %d [%d, %d) and %d [%d, %d) overlap at tick %d",
					o, offsets[o], end(o), e.buffer, offsets[e.buffer], end(e.buffer), e.at)
			}
		}
		live = append(live, 0)
		copy(live[at+1:], live[at:])
		live[at] = e.buffer
	}
	return nil
}
