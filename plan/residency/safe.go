package residency

import (
	"slices"

	"stalloc/internal/mem"
)

// SafeStart is when size bytes may begin to come back, at a rate and without a pause, into what a
// load leaves of a limit: the smallest t, no earlier than from, such that for all t' > t the load
// and what has come back by t' keep the limit. False: there is none.
func SafeStart(load []Load, from Nanos, limit, size mem.Bytes, rate int64) (t Nanos, ok bool) {
	t = from
	for k, l := range slices.Backward(load) {
		end := mostTime // of this stretch: what comes back is most there
		if k+1 < len(load) {
			end = load[k+1].From
		}
		if end <= from {
			break
		}
		room := limit - l.Bytes
		switch {
		case room < 0:
			if end == mostTime {
				return 0, false
			}
			return max(t, end), true
		case room < size:
			if end == mostTime {
				return 0, false
			}
			// By the end of the stretch no more than the room may be back.
			t = max(t, end-ratio(room, rate, 0))
		}
	}
	return t, true
}
