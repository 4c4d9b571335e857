package away

import (
	"testing"

	"stalloc/internal/mem"
)

// TestFitting: where the host has no room for all, what fits leaves.
func TestFitting(t *testing.T) {
	parts := []*part{{size: 3 * mem.MiB}, {size: 5 * mem.MiB}, {size: mem.MiB}}
	for room, want := range map[mem.Bytes]int{
		-mem.MiB: 0, 0: 0, 3*mem.MiB - 1: 0, 3 * mem.MiB: 1, 8*mem.MiB - 1: 1, 8 * mem.MiB: 2,
		9 * mem.MiB: 3, mem.TiB: 3,
	} {
		if got := len(fitting(parts, room)); got != want {
			t.Errorf("%d parts fit in %v, want %d", got, room, want)
		}
	}
}
