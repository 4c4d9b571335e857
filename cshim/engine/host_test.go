package main

import (
	"runtime"
	"sync/atomic"
	"testing"

	hosts "stalloc/actors/host"
	"stalloc/actors/host/hosttest"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

func TestHost(t *testing.T) {
	hosttest.Run(t, func() hosts.Host { return looseHost() })
}

// TestShortPeaks: the highest load between two looks is known, however short it was.
func TestShortPeaks(t *testing.T) {
	h := looseHost()
	h.Lock()
	defer h.Unlock()
	for _, c := range []struct {
		adds      []mem.Bytes
		now, most mem.Bytes
	}{
		{[]mem.Bytes{8 * mem.MiB, 4 * mem.MiB, -8 * mem.MiB}, 4 * mem.MiB, 12 * mem.MiB},
		{nil, 4 * mem.MiB, 4 * mem.MiB},
		{[]mem.Bytes{-4 * mem.MiB}, 0, 4 * mem.MiB},
		{[]mem.Bytes{mem.MiB}, mem.MiB, mem.MiB},
	} {
		for _, n := range c.adds {
			h.addLoad(n)
		}
		if now, most := h.TakeLoad(); now != c.now || most != c.most {
			t.Errorf("after %v: %v, at most %v", c.adds, now, most)
		}
	}
}

// TestFollowedScheduleIsKept: C refers to what a cursor follows, which the collector does not see.
// When it is replaced nobody does.
func TestFollowedScheduleIsKept(t *testing.T) {
	h := looseHost()
	var gone atomic.Bool
	r := h.Build([]schedule.Entry{schedule.Of(1, 8192)})
	runtime.AddCleanup(r, func(gone *atomic.Bool) { gone.Store(true) }, &gone)
	h.Lock()
	defer h.Unlock()
	h.SetSchedule(7, 0, r)
	for range 5 {
		runtime.GC()
		runtime.Gosched()
	}
	if gone.Load() {
		t.Fatal("a schedule was freed under the cursor that follows it")
	}
	h.SetSchedule(7, 0, nil)
	for !gone.Load() { // or the test's time ends
		runtime.GC()
		runtime.Gosched()
	}
}
