package descent

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"stalloc/internal/mem"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the randomized tests; 0 takes a new one")

// newRand returns a source of randomness whose seed is printed on failure.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with -seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// randomBuffers returns n buffers of up to maxSize grains within ticks.
func randomBuffers(rng *rand.Rand, n, ticks, maxSize int) []Buffer {
	b := make([]Buffer, n)
	for i := range b {
		lower := rng.IntN(ticks)
		b[i] = Buffer{
			Lower: mem.Tick(lower),
			Upper: mem.Tick(lower + 1 + rng.IntN(ticks-lower)),
			Size:  mem.Bytes(1+rng.IntN(maxSize)) * mem.Grain,
		}
	}
	return b
}

// overlapNaively reports whether any two buffers collide, pair by pair.
func overlapNaively(b []Buffer, offsets []mem.Offset) bool {
	for i := range b {
		for j := range i {
			if b[i].Empty() || b[j].Empty() {
				continue
			}
			inTime := b[i].Lower < b[j].Upper && b[j].Lower < b[i].Upper
			inSpace := offsets[i] < offsets[j]+mem.Offset(b[j].Size) &&
				offsets[j] < offsets[i]+mem.Offset(b[i].Size)
			if inTime && inSpace {
				return true
			}
		}
	}
	return false
}
