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

// TestForecastThatComesLate: what the program places while a forecast is laid out is foreseen, too,
// so that it does not lie where something else is wished.
func TestForecastThatComesLate(t *testing.T) {
	const requests, late = 200, 20
	k := newKit(t, Options{})
	var waits []any
	hold := func(p *pool) error {
		p.ahead.send = func(m any) { waits = append(waits, m) }
		return nil
	}
	if err := k.rare(hold, ignored); err != nil {
		t.Fatal(err)
	}
	step := func(batch int) (hits, misses uint64) {
		before := k.Stats()
		var live []mem.Addr
		since := 0
		for i := range requests {
			addr := k.malloc(mem.Bytes(batch*(1+i%7)) * 64 * mem.KiB)
			if live = append(live, addr); i%3 == 1 {
				k.release(live[len(live)-2])
				live[len(live)-2] = addr
				live = live[:len(live)-1]
			}
			if since++; len(waits) == 0 {
				since = 0
			} else if since > late {
				var m any
				m, waits, since = waits[0], waits[1:], 0
				k.root.Send(k.layout, m)
			}
		}
		k.release(live...)
		k.boundary()
		now := k.Stats()
		return now.Hits - before.Hits, now.Misses - before.Misses
	}
	for i, batch := range []int{100, 180, 120, 160, 140, 110, 130, 170, 150, 125, 155, 135} {
		hits, misses := step(batch)
		if i > 6 && (hits < requests-2*late || misses > 0) {
			t.Errorf("step %d: %d of %d requests were foreseen, and %d elsewhere", i, hits, requests, misses)
		}
	}
}
