package actors

import (
	"testing"

	"stalloc/internal/mem"
	"stalloc/plan"
)

// TestBoundStays: what the pool takes under one plan is not allowed to the next one
// on top.
func TestBoundStays(t *testing.T) {
	k := newKit(t, Options{NoPlan: true})
	k.malloc(100 * mem.MiB)
	s := &supervisor{d: k.Device}
	for _, c := range []struct {
		what     string
		arena    mem.Bytes
		expected mem.Bytes
	}{
		{"the first plan", 64 * mem.MiB, 100 * mem.MiB},
		{"one after the pool has grown", 64 * mem.MiB, 100 * mem.MiB},
		{"a larger plan", 300 * mem.MiB, 300 * mem.MiB},
		{"a smaller one", 64 * mem.MiB, 300 * mem.MiB},
	} {
		s.activated(&plan.Plan{Streams: []plan.Stream{{Arena: c.arena}}})
		if s.held != c.expected {
			t.Errorf("%s: %v held, expected %v", c.what, s.held, c.expected)
		}
		k.malloc(50 * mem.MiB)
	}
}

// TestNewStreamUnderASmallPlan: the first request of another stream takes a handle, and
// is no reason to give up an arena that is hardly larger.
func TestNewStreamUnderASmallPlan(t *testing.T) {
	k := newKit(t, Options{})
	const requests = 8
	step := func() int64 {
		before := k.Stats().Hits
		for i := range requests {
			k.release(k.malloc(512 << i))
		}
		hits := k.Stats().Hits - before
		k.boundary()
		return int64(hits)
	}
	for range 10 {
		step()
	}
	if got := step(); got != requests {
		t.Fatalf("%d of %d requests hit", got, requests)
	}
	for id := range mem.StreamID(3) {
		if _, err := k.Malloc(id+7, 512); err != nil {
			t.Fatal(err)
		}
		if got := step(); got != requests {
			t.Errorf("with %d other streams %d of %d requests hit", id+1, got, requests)
		}
	}
}
