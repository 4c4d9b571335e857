package actors

import (
	"testing"

	"stalloc/internal/mem"
)

// TestForgottenStreams: streams that hold nothing any more are forgotten at a boundary, and are
// served like new ones when they come again. One that has a schedule is kept, and is served by it
// after an emptied cache.
func TestForgottenStreams(t *testing.T) {
	const planned = mem.StreamID(5)
	k := newKit(t, Options{Always: true})
	step := func() {
		var live []mem.Addr
		for i := range mem.Bytes(6) {
			at, err := k.Malloc(planned, (i+1)*mem.MiB)
			if err != nil {
				t.Fatal(err)
			}
			live = append(live, at)
		}
		k.release(live...)
		k.boundary()
	}
	others := func(n int) {
		for id := range mem.StreamID(n) {
			at, err := k.Malloc(100+id, mem.MiB)
			if err != nil {
				t.Fatal(err)
			}
			k.release(at)
		}
	}
	k.release(k.malloc(mem.MiB)) // the first stream is another
	for range 6 {
		step()
	}
	for range 3 {
		others(50)
		if err := k.Trim(0); err != nil {
			t.Fatal(err)
		}
		k.boundary()
		before := k.Stats().Hits
		step()
		step()
		if hits := k.Stats().Hits - before; hits != 12 {
			t.Errorf("%d of 12 requests hit after an emptied cache", hits)
		}
		if n := len(k.streams.All()); n != 2 {
			t.Errorf("%d streams are known, want the first and the planned one", n)
		}
	}
	k.empty()
}
