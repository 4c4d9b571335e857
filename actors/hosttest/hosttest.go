// Package hosttest is the contract of actors.Host as a test: every host passes it, that of
// Go programs and that whose memory C shares.
package hosttest

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"stalloc/actors"
	"stalloc/stream/brief"
	"stalloc/stream/wish"
)

// Run runs the suite. open returns a fresh host whose device nobody uses.
func Run(t *testing.T, open func() actors.Host) {
	for _, c := range []struct {
		name string
		test func(*testing.T, actors.Host)
	}{
		{"tapes", tapes}, {"reels", reels}, {"reels that come back", swaps}, {"reels that nobody wants", freed}, {"log", log}, {"log that is full", full}, {"log that nobody wants", mute}, {"brief blocks", briefs}, {"lock", lock},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := open()
			if n := h.Load(); n != 0 {
				t.Errorf("nothing lives, the load is %v", n)
			}
			c.test(t, h)
		})
	}
}

func tapes(t *testing.T, h actors.Host) {
	h.Lock()
	defer h.Unlock()
	a, b := h.Tapes(0), h.Tapes(0x1000)
	if a == b || a != h.Tapes(0) {
		t.Error("a stream does not have tapes of its own")
	}
	for i := range a {
		if a[i].Next(1+uint64(i)) != 0 || a[i].Missed != 1 || b[i].Missed != 0 {
			t.Errorf("tape %d expects something, or does not count for itself: %+v, %+v", i, *a[i].State, *b[i].State)
		}
	}
}

// reels begin at their first entry, whatever was played; what was counted ever stays.
func reels(t *testing.T, h actors.Host) {
	entries := []wish.Entry{wish.Of(1, 8192), wish.Of(2, 8193), wish.Of(3, 0)}
	r := h.Build(entries, false)
	other := h.Build(entries[1:], false)
	h.Lock()
	defer h.Unlock()
	tape := &h.Tapes(7)[1]
	h.Serve(7, 1, r)
	for i, e := range entries {
		if got := tape.Next(e.Size()); got != e {
			t.Errorf("entry %d is %x, want %x", i, got, e)
		}
	}
	tape.Hits, tape.Misses = 2, 1
	h.Serve(7, 1, other)
	if got := tape.Next(2); got != entries[1] || tape.Hits != 2 || tape.Misses != 1 || tape.Matched != 1 {
		t.Errorf("the next reel begins with %x: %+v", got, *tape.State)
	}
	h.Serve(7, 1, nil)
	if len(tape.Entries) != 0 || tape.Next(3) != 0 {
		t.Error("a tape without a reel expects something")
	}
	if first := &h.Tapes(7)[0]; len(first.Entries) != 0 {
		t.Error("the other tape of the stream plays as well")
	}
	if r := h.Build(nil, false); r != nil {
		t.Errorf("a reel of nothing is %+v", r)
	}
}

// swaps: a reel may be put in place of another in the middle, and come back.
func swaps(t *testing.T, h actors.Host) {
	lists := [][]wish.Entry{{wish.Of(1, 8192), wish.Of(2, 8193), wish.Of(3, 0)}, {wish.Of(4, 8192), wish.Of(2, 8200)}}
	reels := []*actors.Reel{h.Build(lists[0], false), h.Build(lists[1], false)}
	h.Lock()
	defer h.Unlock()
	tape := &h.Tapes(7)[1]
	for i, c := range []struct{ list, from, to int }{{0, 0, 2}, {1, 0, 1}, {0, 0, 3}, {0, 0, 1}, {1, 1, 2}, {0, 2, 3}} {
		h.Serve(7, 1, reels[c.list])
		if tape.Cursor != 0 || tape.Matched != 0 || !slices.Equal(tape.Entries, lists[c.list]) {
			t.Fatalf("swap %d: %+v of %x", i, *tape.State, tape.Entries)
		}
		tape.Cursor, tape.Matched = uint32(c.from), uint64(c.from)
		for k, e := range lists[c.list][c.from:c.to] {
			if got := tape.Next(e.Size()); got != e {
				t.Errorf("swap %d: entry %d is %x, want %x", i, c.from+k, got, e)
			}
		}
	}
}

// freed: the collector frees the reels that nothing refers to.
func freed(t *testing.T, h actors.Host) {
	const made = 20
	var gone atomic.Int32
	for range made {
		r := h.Build([]wish.Entry{wish.Of(1, 8192)}, false)
		runtime.AddCleanup(r, func(n *atomic.Int32) { n.Add(1) }, &gone)
		h.Lock()
		h.Serve(7, 0, r)
		h.Unlock()
	}
	for gone.Load() < made-1 { // or the test's time ends
		runtime.GC()
		runtime.Gosched()
	}
	h.Lock()
	defer h.Unlock()
	if e := h.Tapes(7)[0].Next(1); e != wish.Of(1, 8192) {
		t.Errorf("what plays is %x", e)
	}
}

func log(t *testing.T, h actors.Host) {
	h.Lock()
	defer h.Unlock()
	h.Observe(true)
	want := []wish.Event{wish.EventOf(wish.EventHit, 512, 1, 1), wish.EventOf(wish.EventLate, 512, 1, 1), wish.EventOf(wish.EventDone, 512, 1, 1)}
	for _, e := range want {
		h.Note(e)
	}
	if got := h.Events(); !slices.Equal(got, want) || !slices.Equal(h.Events(), want) {
		t.Errorf("the log is %+v, want %+v", got, want)
	}
	if lost := h.Clear(); lost != 0 || len(h.Events()) != 0 {
		t.Errorf("behind Clear, which says that %d were lost, the log is %+v", lost, h.Events())
	}
	h.Note(want[1])
	if got := h.Events(); !slices.Equal(got, want[1:2]) {
		t.Errorf("the new log is %+v", got)
	}
}

func full(t *testing.T, h actors.Host) {
	h.Lock()
	defer h.Unlock()
	h.Observe(true)
	for i := range uint64(actors.MostEvents + 5) {
		h.Note(wish.EventOf(wish.EventFree, i, 1, 1))
	}
	got := h.Events()
	if len(got) != actors.MostEvents || got[0].Addr != 0 || got[len(got)-1].Addr != actors.MostEvents-1 {
		t.Errorf("%d events are kept", len(got))
	}
	if lost, again := h.Clear(), h.Clear(); lost != 5 || again != 0 {
		t.Errorf("%d events were lost, then %d, want 5 and none", lost, again)
	}
}

func mute(t *testing.T, h actors.Host) {
	h.Lock()
	defer h.Unlock()
	h.Observe(true)
	h.Observe(false)
	h.Note(wish.EventOf(wish.EventFree, 1, 1, 1))
	if lost := h.Clear(); len(h.Events()) != 0 || lost != 0 {
		t.Errorf("%+v was observed, %d lost, and nobody wanted to know", h.Events(), lost)
	}
}

// briefs: a host foresees as package brief does, however many events have come since it was asked.
func briefs(t *testing.T, h actors.Host) {
	r := rand.New(rand.NewPCG(1, 2))
	var table brief.Table
	for i := range table {
		table[i] = r.Uint64()
	}
	h.Lock()
	defer h.Unlock()
	h.Observe(true)
	h.SetBrief(&table)
	var before brief.History
	said := 0
	for round := range 2000 {
		for range r.IntN(1 << r.IntN(8)) {
			e := wish.EventOf(wish.EventHit+wish.EventKind(r.IntN(6)), r.Uint64(), 1+r.Uint64N(40)*r.Uint64N(20), 1)
			h.Note(e)
			before.Note(e)
		}
		if r.IntN(10) == 0 {
			h.Clear()
		}
		size := r.Uint64N(2) * before.Last
		if size == 0 {
			size = r.Uint64N(2 * brief.Large)
		}
		got := h.Brief(size)
		if want := table.Brief(&before, size); got != want {
			t.Fatalf("round %d: behind %+v a block of %d units is brief: %v, want %v", round, before, size, got, want)
		}
		if got {
			said++
		}
	}
	if said < 200 || said > 1000 {
		t.Errorf("%d of 2000 blocks were brief, of a random table", said)
	}
}

func lock(t *testing.T, h actors.Host) {
	var group sync.WaitGroup
	inside, n := 0, 0
	for range 4 {
		group.Go(func() {
			for range 2000 {
				h.Lock()
				if inside++; inside != 1 {
					t.Error("two are inside")
				}
				h.Tapes(3)[0].Missed++
				n++
				inside--
				h.Unlock()
			}
		})
	}
	group.Wait()
	h.Lock()
	defer h.Unlock()
	if got := h.Tapes(3)[0].Missed; n != 8000 || got != 8000 {
		t.Errorf("8000 were inside, counted %d and %d", n, got)
	}
}
