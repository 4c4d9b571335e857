package actors

import (
	"testing"

	"stalloc/internal/mem"
	"stalloc/stream/wish"
)

// TestStepsThatNobodyReadAlong: what C has served in steps of which Go heard only at their
// end is learned all the same, and foreseen in the next.
func TestStepsThatNobodyReadAlong(t *testing.T) {
	k := newKit(t, Options{})
	const requests = mostBehind
	size := func(batch, i int) mem.Bytes { return mem.Bytes(batch*(1+i%7)) * 64 * mem.KiB }
	k.play(size(100, 0))
	k.boundary()
	for _, batch := range []int{100, 180, 120, 160, 140, 110} {
		k.host.Lock()
		for i := range requests {
			for _, kind := range []wish.EventKind{wish.EventMiss, wish.EventFree} {
				k.host.Note(wish.EventOf(kind, uint64(k.base), uint64(mem.Round(size(batch, i))/mem.Grain), 1))
			}
		}
		k.host.Unlock()
		k.boundary()
	}
	before := k.Stats().Hits
	for i := range requests {
		k.release(k.malloc(size(150, i)))
	}
	if hits := k.Stats().Hits - before; hits < requests*9/10 {
		t.Errorf("%d of %d requests were foreseen", hits, requests)
	}
}
