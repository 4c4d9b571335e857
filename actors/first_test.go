package actors

import (
	"testing"

	"stalloc/engine/gmlake"
	"stalloc/internal/mem"
)

// TestFirstStep: the pool leaves holes alone until it is told that the first step is
// over; GMLake stitches from the first request on.
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
		for range 40 {
			at = append(at, k.malloc(32*mem.MiB))
		}
		k.release(at[3], at[7])
		if c.told {
			if err := k.Device.FirstStep(); err != nil {
				t.Fatal(err)
			}
		}
		before := k.Stats().Reserved
		k.malloc(64 * mem.MiB)
		if more := k.Stats().Reserved > before; more == c.stitches {
			t.Errorf("%s: stitches: %t", c.name, !more)
		}
	}
}
