package main

import (
	"runtime"
	"sync/atomic"
	"testing"

	"stalloc/actors"
	"stalloc/actors/hosttest"
	"stalloc/stream/wish"
)

func TestHost(t *testing.T) {
	hosttest.Run(t, func() actors.Host { return looseHost() })
}

// TestPlayingReelIsKept: C refers to what a tape plays, which the collector does not see. When
// it is replaced nobody does.
func TestPlayingReelIsKept(t *testing.T) {
	h := looseHost()
	var gone atomic.Bool
	r := h.Build([]wish.Entry{wish.Of(1, 8192)}, false)
	runtime.AddCleanup(r, func(gone *atomic.Bool) { gone.Store(true) }, &gone)
	h.Lock()
	defer h.Unlock()
	h.Serve(7, 0, r)
	for range 5 {
		runtime.GC()
		runtime.Gosched()
	}
	if gone.Load() {
		t.Fatal("a reel was freed under the tape that plays it")
	}
	h.Serve(7, 0, nil)
	for !gone.Load() { // or the test's time ends
		runtime.GC()
		runtime.Gosched()
	}
}
