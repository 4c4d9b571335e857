package actors

import (
	"testing"

	"stalloc/engine/gmlake"
	"stalloc/internal/mem"
)

// TestFirstStep: until the pool is told that the first step is over it takes a little new
// memory rather than stitch gaps; GMLake stitches from the first request on.
func TestFirstStep(t *testing.T) {
	lake := gmlake.DefaultConfig()
	lake.FragLimit = 2 * mem.MiB
	for _, c := range []struct {
		name     string
		told     bool
		lake     *gmlake.Config
		stitches bool
	}{
		{"in the first step", false, nil, false},
		{"behind it", true, nil, true},
		{"GMLake", true, &lake, true},
	} {
		k := newKit(t, Options{NoPlan: true, GMLake: c.lake})
		var at []mem.Addr
		for range 128 {
			at = append(at, k.malloc(32*mem.MiB))
		}
		k.release(at[3], at[7])
		if c.told {
			if err := k.Device.FirstStep(); err != nil {
				t.Fatal(err)
			}
		}
		before := k.Stats().Reserved
		k.malloc(34 * mem.MiB)
		if more := k.Stats().Reserved > before; more == c.stitches {
			t.Errorf("%s: stitches: %t", c.name, !more)
		}
	}
}
