package trace

import (
	"strings"

	"stalloc/internal/mem"
)

// Trace is a whole recording.
type Trace struct {
	Name    string  // the file's base name without .gz, .csv and .pickle
	Header  string  // the first line after "# ": "workload ..." or "megatron ..."
	Events  []Event // in the order the allocator saw them
	Device  int     // of a snapshot; negative for our own format
	Skipped Skipped // what a snapshot had lost; zero for our own format
	Stacks  *Stacks // of a file read with Frames, if it has any; nil otherwise
}

// PeakLoad returns the largest sum of live block sizes, each rounded up to
// mem.Grain. A block lives until its free is requested: one that waits for other streams
// may be waited for. No allocator can reserve less.
func (t *Trace) PeakLoad() mem.Bytes {
	var load, peak mem.Bytes
	live := make(map[int64]mem.Bytes)
	for i := range t.Events {
		switch e := &t.Events[i]; e.Kind {
		case Alloc:
			size := mem.Round(e.Size)
			live[e.ID] = size
			load += size
			peak = max(peak, load)
		case FreeRequested:
			load -= live[e.ID]
			delete(live, e.ID)
		}
	}
	return peak
}

// Steps returns the steps of the trace as half-open ranges of Events: from
// after a mark "step ..." to the next such mark, to "end", or to the end of a
// trace that was stopped before. What comes before the first step (set-up) and
// after "end" belongs to none; other marks lie inside their step.
func (t *Trace) Steps() [][2]int {
	var steps [][2]int
	start := -1
	for i := range t.Events {
		if t.Events[i].Kind != Mark {
			continue
		}
		mark := t.Events[i].Mark
		begins := strings.HasPrefix(mark, "step ")
		if !begins && mark != "end" {
			continue
		}
		if start >= 0 {
			steps = append(steps, [2]int{start, i})
			start = -1
		}
		if begins {
			start = i + 1
		}
	}
	if start >= 0 {
		steps = append(steps, [2]int{start, len(t.Events)})
	}
	return steps
}
