package descent

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"stalloc/internal/mem"
)

func randomProblem(rng *rand.Rand, n int) *Boxes {
	return Compress(randomBuffers(rng, n, 2+rng.IntN(2*n), 9))
}

func permutation(rng *rand.Rand, n int) []int32 {
	order := make([]int32, n)
	for i, k := range rng.Perm(n) {
		order[i] = int32(k)
	}
	return order
}

// TestTreeAgainstScan asks and takes until the tree is empty.
func TestTreeAgainstScan(t *testing.T) {
	rng := newRand(t)
	for n := 1; n < 300; n += 1 + n/4 {
		p := randomProblem(rng, n)
		tr := newTree(p)
		for range 2 { // a tree serves many descents
			order := permutation(rng, n)
			tr.refill(order)
			gone := make([]bool, n)
			for left := n; left > 0; {
				lo := int32(rng.IntN(int(p.Ticks)))
				hi := lo + 1 + int32(rng.IntN(int(p.Ticks-lo)))
				if rng.IntN(4) == 0 {
					lo, hi = 0, p.Ticks
				}
				want := taken
				for r, box := range order {
					if !gone[box] && p.Lo[box] >= lo && p.Hi[box] <= hi {
						want = int32(r)
						break
					}
				}
				got := tr.within(lo, hi)
				if got != want {
					t.Fatalf("n %d: best rank within [%d, %d) is %d, expected %d", n, lo, hi, got,
						want)
				}
				if got != taken {
					gone[order[got]] = true
					tr.take(order[got])
					left--
				}
			}
			if got := tr.within(0, p.Ticks); got != taken {
				t.Fatalf("an empty tree answers %d", got)
			}
		}
	}
}

// naiveDescent is the skyline descent on an array of heights by tick.
func naiveDescent(p *Boxes, order []int32) (offset []int64, top int64) {
	const none = int32(-1)
	height := make([]int64, p.Ticks)
	offset = make([]int64, len(order))
	placed := make([]bool, len(order))
	for left := len(order); left > 0; {
		at := 0
		for t := range height {
			if height[t] < height[at] {
				at = t
			}
		}
		end := at
		for end < len(height) && height[end] == height[at] {
			end++
		}
		box := none
		for _, b := range order {
			if !placed[b] && int(p.Lo[b]) >= at && int(p.Hi[b]) <= end {
				box = b
				break
			}
		}
		if box == none {
			lower := int64(math.MaxInt64)
			if at > 0 {
				lower = height[at-1]
			}
			if end < len(height) {
				lower = min(lower, height[end])
			}
			for t := at; t < end; t++ {
				height[t] = lower
			}
			continue
		}
		placed[box], offset[box] = true, height[at]
		left--
		for t := p.Lo[box]; t < p.Hi[box]; t++ {
			height[t] = offset[box] + p.Size[box]
		}
		top = max(top, offset[box]+p.Size[box])
	}
	return offset, top
}

// TestDescentAgainstNaive: in a gap that holds all, and in one that does not, where some
// boxes are left out and all others keep their places.
func TestDescentAgainstNaive(t *testing.T) {
	rng := newRand(t)
	for n := 1; n < 100; n += 1 + n/6 {
		for range 20 {
			p := randomProblem(rng, n)
			order := permutation(rng, n)
			d := NewDescent(p)
			want, wantTop := naiveDescent(p, order)
			at := make([]int64, n)
			for range 2 { // it is reused
				if top := d.Fill(order, 0, math.MaxInt64, at); top != wantTop ||
					!slices.Equal(at, want) {
					t.Fatalf("n %d: the descent ends at %d, expected %d; %v, expected %v", n, top,
						wantTop, at, want)
				}
			}
			for i := range at {
				at[i] = unplaced
			}
			const from = 1 << 20
			top := d.Fill(order, from, wantTop-1, at)
			if !slices.Contains(at, unplaced) || top >= from+wantTop {
				t.Fatalf("n %d: all is placed in a gap that is too small, up to %d of %d", n, top,
					from+wantTop)
			}
			for i, x := range at {
				if x != unplaced && (x < from || x+p.Size[i] > top) {
					t.Fatalf("n %d: box %d at %d of [%d, %d)", n, i, x, from, top)
				}
			}
		}
	}
}

func TestPeaksAgainstScan(t *testing.T) {
	rng := newRand(t)
	p := randomProblem(rng, 60)
	table := newPeaks(p)
	for lo := range p.Ticks {
		want := int64(0)
		for hi := lo + 1; hi <= p.Ticks; hi++ {
			want = max(want, p.Load[hi-1])
			if got := table.over(lo, hi); got != want {
				t.Fatalf("largest load over [%d, %d) is %d, expected %d", lo, hi, got, want)
			}
		}
	}
}

// TestProblem: compression keeps who lives with whom, and the peak load.
func TestProblem(t *testing.T) {
	rng := newRand(t)
	for n := 1; n < 60; n++ {
		b := randomBuffers(rng, n, 3*n, 5)
		p := Compress(b)
		if int(p.Ticks) > n {
			t.Fatalf("%d ticks for %d buffers", p.Ticks, n)
		}
		box := make([]int, n) // by buffer
		for k, id := range p.IDs {
			box[id] = k
		}
		bound := mem.Bytes(0)
		for i := range b {
			load := mem.Bytes(0)
			for j := range b {
				together := b[i].Lower < b[j].Upper && b[j].Lower < b[i].Upper
				if (p.Lo[box[i]] < p.Hi[box[j]] && p.Lo[box[j]] < p.Hi[box[i]]) != together {
					t.Fatalf("buffers %v and %v: live together %v", b[i], b[j], together)
				}
				if b[j].Lower <= b[i].Lower && b[i].Lower < b[j].Upper {
					load += b[j].Size
				}
			}
			bound = max(bound, load)
		}
		if LowerBound(b) != bound {
			t.Fatalf("bound %d, expected %d", LowerBound(b), bound)
		}
	}
}
