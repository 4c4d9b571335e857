package actors

import (
	"testing"

	"stalloc/engine/gmlake"
	"stalloc/internal/mem"
)

// TestGapsAreStitched: two gaps serve a request that neither holds, in the range and under
// GMLake's algorithm.
func TestGapsAreStitched(t *testing.T) {
	lake := gmlake.DefaultConfig()
	lake.FragLimit = 2 * mem.MiB
	for name, policy := range map[string]*gmlake.Config{"the range": nil, "GMLake": &lake} {
		k := newKit(t, Options{GMLake: policy})
		var at []mem.Addr
		for range 40 {
			at = append(at, k.malloc(32*mem.MiB))
		}
		k.release(at[3], at[7])
		before := k.Stats().Reserved
		k.malloc(64 * mem.MiB)
		if now := k.Stats().Reserved; now > before {
			t.Errorf("%s: %v were reserved, and now %v", name, before, now)
		}
	}
}
