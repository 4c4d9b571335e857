package cost

import (
	"math"
	"testing"

	"stalloc/internal/mem"
)

func TestMicros(t *testing.T) {
	for _, c := range []struct {
		k    Call
		n    mem.Bytes
		want float64
	}{
		{MemAlloc, 1, 37}, {MemAlloc, 20 * mem.MiB, 38}, {MemAlloc, 42 * mem.MiB, 40}, {MemFree,
			4 * mem.GiB, 1994},
		{MemFree, 4*mem.GiB + 3584*mem.MiB, 1994 + 1797}, {Create, 288 * mem.MiB, 13.7}, {Reserve,
			mem.TiB, 14},
		{SetAccess, 2 * mem.MiB, 23.6}, {SetAccess, 20 * mem.MiB, 23.1}, {Unmap, 64 * mem.MiB,
			16.4},
	} {
		if got := Micros(c.k, c.n); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v of %v: %v µs, want %v", c.k, c.n, got, c.want)
		}
	}
}
