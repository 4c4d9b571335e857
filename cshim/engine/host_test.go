package main

import (
	"runtime"
	"sync/atomic"
	"testing"

	hosts "stalloc/actors/host"
	"stalloc/actors/host/hosttest"
	"stalloc/stream/schedule"
)

func TestHost(t *testing.T) {
	hosttest.Run(t, func() hosts.Host { return looseHost() })
}

// TestPlayingScheduleIsKept: C refers to what a cursor follows, which the collector does not see.
// When it is replaced nobody does.
func TestPlayingScheduleIsKept(t *testing.T) {
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
