package replay

import (
	"slices"
	"sort"
	"time"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// What a recording tells of its streams, and of how far the device was behind the host.

// otherStream is the first number of the streams that stand in for the unknown ones
// that deferred frees wait for.
const otherStream mem.StreamID = 1 << 40

// otherStreams chooses a stream for each deferred free of a trace: as few as let all of
// them complete when they were recorded to, since the work on a stream ends in its order.
func otherStreams(tr *trace.Trace) map[int64]mem.StreamID {
	done := make(map[int64]int) // the event at which a block's free completes
	for i := range tr.Events {
		if e := &tr.Events[i]; e.Kind == trace.FreeCompleted {
			done[e.ID] = i
		}
	}
	others := make(map[int64]mem.StreamID)
	var last []int // by stream, falling: when its last wait ends
	for i := range tr.Events {
		e := &tr.Events[i]
		if e.Kind != trace.FreeRequested || !Deferred(tr.Events, i) {
			continue
		}
		end, known := done[e.ID]
		if !known {
			end = len(tr.Events)
		}
		at := sort.Search(len(last), func(k int) bool { return last[k] <= end })
		if at == len(last) {
			last = append(last, end)
		}
		last[at] = end
		others[e.ID] = otherStream + mem.StreamID(at)
	}
	return others
}

// completions returns when the frees of a trace complete.
func completions(tr *trace.Trace) map[int64]time.Duration {
	done := make(map[int64]time.Duration)
	for i := range tr.Events {
		if e := &tr.Events[i]; e.Kind == trace.FreeCompleted {
			done[e.ID] = time.Duration(e.Micros) * time.Microsecond
		}
	}
	return done
}

// deviceLag is, where a recording does not tell, how many requests and frees the device is behind
// the host at most: about as many as the late frees of the Megatron recordings show. The simulated
// device comes no further by itself.
const deviceLag = 2000

// usualLag is the time of so many events of a trace.
func usualLag(tr *trace.Trace) time.Duration {
	n := len(tr.Events)
	if n < deviceLag {
		return 0
	}
	all := time.Duration(tr.Events[n-1].Micros-tr.Events[0].Micros) * time.Microsecond
	return all * deviceLag / time.Duration(n)
}

// severalStreams reports whether requests are made on more than one stream.
func severalStreams(tr *trace.Trace) bool {
	return slices.ContainsFunc(tr.Events, func(e trace.Event) bool {
		return e.Kind == trace.Alloc &&
			e.Stream != tr.Events[0].Stream
	})
}
