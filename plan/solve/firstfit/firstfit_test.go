package firstfit

import (
	"math/rand/v2"
	"testing"

	"stalloc/internal/mem"
	"stalloc/plan/solve/dsa"
)

// lowest tries every offset.
func lowest(p *dsa.Problem, placed []int, at []mem.Offset, i int) mem.Offset {
	for at[i] = 0; ; at[i]++ {
		sub, offsets := &dsa.Problem{}, []mem.Offset(nil)
		for _, k := range append(placed[:len(placed):len(placed)], i) {
			for _, g := range p.Gaps {
				if g.Buffer == k {
					g.Buffer = len(sub.Buffers)
					sub.Gaps = append(sub.Gaps, g)
				}
			}
			sub.Buffers, offsets = append(sub.Buffers, p.Buffers[k]), append(offsets, at[k])
			sub.Align = append(sub.Align, p.Align[k])
		}
		if dsa.Check(sub, offsets) == nil {
			return at[i]
		}
	}
}

// TestAgainstNaive: each box goes where a look at every offset says, gaps and alignment included,
// in lists of one chunk and of many.
func TestAgainstNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for round := range 18 {
		p := &dsa.Problem{}
		for i := range 1 + rng.IntN(3*chunkSize) {
			lower := rng.IntN(40)
			b := dsa.Buffer{Lower: mem.Tick(lower), Upper: mem.Tick(lower + 1 + rng.IntN(12)),
				Size: mem.Bytes(1 + rng.IntN(9))}
			p.Buffers = append(p.Buffers, b)
			p.Align = append(p.Align, 1)
			if round%3 == 0 {
				p.Align[i] = mem.Bytes(1 + rng.IntN(4))
			}
			if round%2 == 0 && b.Upper-b.Lower > 3 {
				p.Gaps = append(p.Gaps, dsa.Gap{Buffer: i, Lower: b.Lower + 1, Upper: b.Upper - 1,
					From: 0, To: mem.Bytes(rng.IntN(int(b.Size)))})
			}
		}
		in := dsa.Compress(p)
		place, at := New(in), make([]mem.Offset, len(p.Buffers))
		var placed []int
		for _, box := range rng.Perm(len(in.IDs)) {
			i := int(in.IDs[box])
			want := lowest(p, placed, at, i)
			if got := place.Place(int32(box)); got != int64(want) {
				t.Fatalf("round %d: box %d goes to %d, expected %d", round, box, got, want)
			}
			placed = append(placed, i)
		}
	}
}
