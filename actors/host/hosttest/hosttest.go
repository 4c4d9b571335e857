// Package hosttest is the contract of host.Host as a test: every host passes it, that of
// Go programs and that whose memory C shares.
package hosttest

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"stalloc/actors/host"
	"stalloc/stream/schedule"
)

// Run runs the suite. open returns a fresh host whose device nobody uses.
func Run(t *testing.T, open func() host.Host) {
	for _, c := range []struct {
		name string
		test func(*testing.T, host.Host)
	}{
		{"cursors", cursors}, {"schedules", schedules}, {"schedules that come back",
			swaps}, {"schedules that nobody wants", freed}, {"log", log},
		{"log that is full", full}, {"log that is taken", taken},
		{"log that nobody wants", mute}, {"lock", lock},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := open()
			h.Lock()
			if n, most := h.TakeLoad(); n != 0 || most != 0 {
				t.Errorf("nothing lives, the load is %v, and was %v", n, most)
			}
			h.Unlock()
			c.test(t, h)
		})
	}
}

func cursors(t *testing.T, h host.Host) {
	h.Lock()
	defer h.Unlock()
	for i := range schedule.Cursors {
		if e := h.Next(0, i, 1); e != 0 {
			t.Errorf("cursor %d of nothing expects %x", i, e)
		}
		h.Count(0, i, false) // nothing was planned
		h.Count(0, i, true)
	}
	hits, misses := h.Served(0)
	if others, _ := h.Served(0x1000); hits != schedule.Cursors || misses != 0 || others != 0 {
		t.Errorf("%d hits, %d misses, %d hits of another stream", hits, misses, others)
	}
}

// play asks a cursor for what a list expects from one entry up to another.
func play(t *testing.T, h host.Host, list []schedule.Entry, from, to int) {
	t.Helper()
	for i, e := range list[from:to] {
		if got := h.Next(7, schedule.Small, e.Size()); got != e {
			t.Errorf("entry %d is %x, want %x", from+i, got, e)
		}
	}
}

// schedules begin at their first entry, whatever was played; what was counted ever stays.
func schedules(t *testing.T, h host.Host) {
	entries := []schedule.Entry{schedule.Of(1, 8192), schedule.Of(2, 8193), schedule.Of(3, 0)}
	r, other := h.Build(entries), h.Build(entries[1:])
	h.Lock()
	defer h.Unlock()
	h.SetSchedule(7, schedule.Small, r)
	play(t, h, entries, 0, 3)
	h.Count(7, schedule.Small, true)
	h.Count(7, schedule.Small, false)
	h.SetSchedule(7, schedule.Small, other)
	play(t, h, entries, 1, 2)
	if hits, misses := h.Served(7); hits != 1 || misses != 1 {
		t.Errorf("%d hits and %d misses are known", hits, misses)
	}
	h.SetSchedule(7, schedule.Small, r)
	play(t, h, entries, 0, 1)
	if h.Next(7, schedule.Small, 9) != 0 || h.Next(7, schedule.Small, 2) != 0 {
		t.Error("a cursor goes on after a request that it did not expect")
	}
	h.SetSchedule(7, schedule.Small, nil)
	if h.Next(7, schedule.Small, 1) != 0 || h.Next(7, schedule.Large, 1) != 0 {
		t.Error("a cursor without a schedule expects something")
	}
	if r := h.Build(nil); r != nil {
		t.Errorf("a schedule of nothing is %+v", r)
	}
}

// swaps: a schedule may be put in place of another in the middle, and come back.
func swaps(t *testing.T, h host.Host) {
	lists := [][]schedule.Entry{{schedule.Of(1, 8192), schedule.Of(2, 8193), schedule.Of(3, 0)},
		{schedule.Of(4, 8192), schedule.Of(2, 8200)}}
	schedules := []*host.Schedule{h.Build(lists[0]), h.Build(lists[1])}
	h.Lock()
	defer h.Unlock()
	for _, c := range []struct{ list, to int }{{0, 2}, {1, 1}, {0, 3}, {0, 1}, {1, 2}, {0, 3}} {
		h.SetSchedule(7, schedule.Small, schedules[c.list])
		play(t, h, lists[c.list], 0, c.to)
	}
}

// freed: the collector frees the schedules that nothing refers to.
func freed(t *testing.T, h host.Host) {
	const made = 20
	var gone atomic.Int32
	for range made {
		r := h.Build([]schedule.Entry{schedule.Of(1, 8192)})
		runtime.AddCleanup(r, func(n *atomic.Int32) { n.Add(1) }, &gone)
		h.Lock()
		h.SetSchedule(7, 0, r)
		h.Unlock()
	}
	for gone.Load() < made-1 { // or the test's time ends
		runtime.GC()
		runtime.Gosched()
	}
	h.Lock()
	defer h.Unlock()
	if e := h.Next(7, 0, 1); e != schedule.Of(1, 8192) {
		t.Errorf("what plays is %x", e)
	}
}

func log(t *testing.T, h host.Host) {
	h.Lock()
	defer h.Unlock()
	h.Observe(true)
	want := []schedule.Event{schedule.EventOf(schedule.EventHit, 512, 1, 1),
		schedule.EventOf(schedule.EventLate, 512, 1, 1), schedule.EventOf(schedule.EventDone, 512,
			1, 1)}
	for _, e := range want {
		h.Note(e)
	}
	n := h.Logged()
	if got, lost := read(h); n != len(want) || !slices.Equal(got, want) || lost != 0 ||
		h.Logged() != 0 {
		t.Errorf("the log is %+v, and %d were lost, want %+v; then there are %d", got, lost, want,
			h.Logged())
	}
	h.Note(want[1])
	if got, _ := read(h); !slices.Equal(got, want[1:2]) {
		t.Errorf("the new log is %+v", got)
	}
}

// read takes what was logged and how many events were lost.
func read(h host.Host) (events []schedule.Event, lost uint64) {
	taken, lost := h.Take()
	defer h.Return(taken)
	return slices.Clone(taken), lost
}

func full(t *testing.T, h host.Host) {
	h.Lock()
	defer h.Unlock()
	h.Observe(true)
	for i := range uint64(host.MostEvents + 5) {
		h.Note(schedule.EventOf(schedule.EventFree, i, 1, 1))
	}
	got, lost := read(h)
	if len(got) != host.MostEvents || got[0].Addr != 0 ||
		got[len(got)-1].Addr != host.MostEvents-1 {
		t.Errorf("%d events are kept", len(got))
	}
	if _, again := read(h); lost != 5 || again != 0 {
		t.Errorf("%d events were lost, then %d, want 5 and none", lost, again)
	}
}

// taken holds arrays that were taken to what was noted, while the log goes on in others.
func taken(t *testing.T, h host.Host) {
	h.Lock()
	defer h.Unlock()
	h.Observe(true)
	var all [][]schedule.Event
	lengths := []int{5000, 3, 70_000, 0, 5000, 4097}
	for n, most := range lengths {
		for i := range uint64(most) {
			h.Note(schedule.EventOf(schedule.EventFree, uint64(n)<<32|i, 1, 1))
		}
		events, lost := h.Take()
		if lost != 0 || h.Logged() != 0 {
			t.Fatalf("round %d: %d events were lost, and %d are still there", n, lost, h.Logged())
		}
		if all = append(all, events); n == 2 { // its array is used again
			h.Return(all[0])
			all[0] = nil
		}
	}
	for n, events := range all {
		if n > 0 && len(events) != lengths[n] {
			t.Fatalf("round %d has %d events, want %d", n, len(events), lengths[n])
		}
		for i, e := range events {
			if e.Addr != uint64(n)<<32|uint64(i) {
				t.Fatalf("round %d: event %d is of %#x", n, i, e.Addr)
			}
		}
		if n > 0 {
			h.Return(events)
		}
	}
}

func mute(t *testing.T, h host.Host) {
	h.Lock()
	defer h.Unlock()
	h.Observe(true)
	h.Observe(false)
	h.Note(schedule.EventOf(schedule.EventFree, 1, 1, 1))
	if events, lost := read(h); len(events) != 0 || lost != 0 {
		t.Errorf("%+v was observed, %d lost, and nobody wanted to know", events, lost)
	}
}

func lock(t *testing.T, h host.Host) {
	var group sync.WaitGroup
	inside, n := 0, 0
	for range 4 {
		group.Go(func() {
			for range 2000 {
				h.Lock()
				if inside++; inside != 1 {
					t.Error("two are inside")
				}
				h.Count(3, 0, true)
				n++
				inside--
				h.Unlock()
			}
		})
	}
	group.Wait()
	h.Lock()
	defer h.Unlock()
	if got, _ := h.Served(3); n != 8000 || got != 8000 {
		t.Errorf("8000 were inside, counted %d and %d", n, got)
	}
}
