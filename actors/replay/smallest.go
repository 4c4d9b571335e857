package replay

import (
	"context"
	"fmt"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// endless is more memory than any recording can be in need of, in handles.
const endless = int64(1<<50) / int64(mem.HandleSize)

// Smallest returns the memory of the smallest device, in whole handles of
// mem.HandleSize, on which tr replays through a to its end. It is found by bisection
// between the peak load, below which none can be, and from, best the peak that a run
// with memory to spare has reserved; if that does not suffice, upwards from there.
// c.Capacity is not looked at.
//
// An allocator need not be monotonic: where its blocks lie can depend on how much
// memory there is, and a smaller device suffice by chance. What is returned suffices,
// and one handle less does not or is below the peak load. A warm run makes both of its
// starts on the same device.
//
// progress, unless it is nil, is asked for every replay's own, by the device's memory.
func (a Allocator) Smallest(ctx context.Context, tr *trace.Trace, c Config, from mem.Bytes,
	progress func(capacity mem.Bytes) func(done, total int)) (mem.Bytes, error) {
	suffices := func(handles int64) (bool, error) {
		c.Capacity = mem.Bytes(handles) * mem.HandleSize
		var each func(done, total int)
		if progress != nil {
			each = progress(c.Capacity)
		}
		r, err := a.Replay(ctx, tr, c, each)
		return err == nil && !r.OOM, err
	}
	least := max(mem.Handles(tr.PeakLoad()), 1)
	full, enough := least-1, max(mem.Handles(from), least)
	for more := int64(1); ; more *= 2 {
		ok, err := suffices(enough)
		if err != nil {
			return 0, err
		}
		if ok {
			break
		}
		if enough > endless {
			return 0, fmt.Errorf("out of memory on a device of %v too: no size suffices", c.Capacity)
		}
		full, enough = enough, enough+more
	}
	for enough-full > 1 {
		middle := full + (enough-full)/2
		ok, err := suffices(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			enough = middle
		} else {
			full = middle
		}
	}
	return mem.Bytes(enough) * mem.HandleSize, nil
}
