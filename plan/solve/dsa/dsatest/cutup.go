// Package dsatest makes hard problems for the tests of solvers.
package dsatest

import (
	"math/rand/v2"

	"stalloc/internal/mem"
	"stalloc/plan/solve/dsa"
)

// CutUp returns a square that was cut into buffers, and where they lay: they fit it in few ways,
// and with many cuts no search finds them again.
func CutUp(rng *rand.Rand, cuts, side int) (*dsa.Problem, []mem.Offset) {
	p, at := &dsa.Problem{Buffers: []dsa.Buffer{{Lower: 0, Upper: mem.Tick(side),
		Size: mem.Bytes(side)}}}, []mem.Offset{0}
	for len(at) < cuts {
		i := rng.IntN(len(at))
		b, from := p.Buffers[i], at[i]
		other := b
		if life := int(b.Upper - b.Lower); rng.IntN(2) == 0 && life > 1 {
			b.Upper = b.Lower + mem.Tick(1+rng.IntN(life-1))
			other.Lower = b.Upper
		} else if b.Size > 1 {
			b.Size = 1 + mem.Bytes(rng.IntN(int(b.Size)-1))
			other.Size -= b.Size
			from += mem.Offset(b.Size)
		} else {
			continue
		}
		p.Buffers[i] = b
		p.Buffers, at = append(p.Buffers, other), append(at, from)
	}
	return p, at
}
