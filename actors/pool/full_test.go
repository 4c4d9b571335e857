package pool

import (
	"testing"

	"stalloc/actors/region"
	"stalloc/internal/mem"
)

// TestARegionTakesWhatTheDriverHas: other programs have memory of the device, too, so the driver
// has less than the limit leaves, and less than the handles that a region grows by.
func TestARegionTakesWhatTheDriverHas(t *testing.T) {
	const left = 14 * mem.MiB
	k := newKit(t)
	for range 48 {
		k.malloc(0, 0, 128*mem.MiB)
	}
	others, err := k.gpu.Create(8*mem.GiB - k.gpu.Used() - left)
	if err != nil {
		t.Fatal(err)
	}
	number, err := region.Number("test: little is left")
	if err != nil {
		t.Fatal(err)
	}
	for range left / (2 * mem.MiB) {
		k.malloc(0, number, 2*mem.MiB)
	}
	if used := k.gpu.Used(); used != 8*mem.GiB {
		t.Errorf("%v are used", used)
	}
	if err := k.gpu.Release(others); err != nil {
		t.Error(err)
	}
}
