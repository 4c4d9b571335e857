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
