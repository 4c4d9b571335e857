package plan

import (
	"math"
	"testing"

	"stalloc/internal/mem"
)

// randomPiece returns a piece of n boxes on a random floor, if floored.
func randomPiece(t *testing.T, rng interface{ IntN(int) int }, n int, floored bool) *piece {
	t.Helper()
	d := &board{ticks: int32(2 + rng.IntN(2*n))}
	d.floor = make([]int64, d.ticks)
	for i := range n {
		lo := int32(rng.IntN(int(d.ticks)))
		d.ids = append(d.ids, int32(i))
		d.lo = append(d.lo, lo)
		d.hi = append(d.hi, lo+1+int32(rng.IntN(int(d.ticks-lo))))
		d.size = append(d.size, int64(1+rng.IntN(9)))
	}
	if !floored {
		return d.newPiece(d.ids, 0, nil)
	}
	for i := 1; i < int(d.ticks); i++ {
		d.floor[i] = d.floor[i-1] + int64(max(0, rng.IntN(6)-3))
	}
	lo, hi := d.span(d.ids)
	return d.newPiece(d.ids, 0, d.floor[lo:hi])
}

func permutation(rng interface{ Perm(int) []int }, n int) []int32 {
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
		p := randomPiece(t, rng, n, false)
		tr := newTree(p.lo, p.hi)
		for range 2 { // a tree serves many descents
			order := permutation(rng, n)
			tr.refill(order)
			gone := make([]bool, n)
			for left := n; left > 0; {
				lo := int32(rng.IntN(int(p.ticks)))
				hi := lo + 1 + int32(rng.IntN(int(p.ticks-lo)))
				if rng.IntN(4) == 0 {
					lo, hi = 0, p.ticks
				}
				want := taken
				for r, box := range order {
					if !gone[box] && p.lo[box] >= lo && p.hi[box] <= hi {
						want = int32(r)
						break
					}
				}
				got := tr.within(lo, hi)
				if got != want {
					t.Fatalf("n %d: best rank within [%d, %d) is %d, expected %d", n, lo, hi, got, want)
				}
				if got != taken {
					gone[order[got]] = true
					tr.take(order[got])
					left--
				}
			}
			if got := tr.within(0, p.ticks); got != taken {
				t.Fatalf("an empty tree answers %d", got)
			}
		}
	}
}

// naiveDescent is the skyline descent on an array of heights by tick.
func naiveDescent(p *piece, order []int32) (offset []int64, top int64) {
	height := make([]int64, p.ticks)
	for t := range height {
		height[t] = p.floorAt(int32(t))
	}
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
			if !placed[b] && int(p.lo[b]) >= at && int(p.hi[b]) <= end {
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
		for t := p.lo[box]; t < p.hi[box]; t++ {
			height[t] = offset[box] + p.size[box]
		}
		top = max(top, offset[box]+p.size[box])
	}
	return offset, top
}

// naiveFit is first fit by trying every end of a placed box.
func naiveFit(p *piece, order []int32) []int64 {
	offset := make([]int64, len(order))
	var placed []int32
	clear := func(box int32, at int64) bool {
		for t := p.lo[box]; t < p.hi[box]; t++ {
			if at < p.floorAt(t) {
				return false
			}
		}
		for _, q := range placed {
			if p.lo[q] < p.hi[box] && p.lo[box] < p.hi[q] && offset[q] < at+p.size[box] && at < offset[q]+p.size[q] {
				return false
			}
		}
		return true
	}
	for _, box := range order {
		for !clear(box, offset[box]) {
			offset[box]++
		}
		placed = append(placed, box)
	}
	return offset
}

func TestDescentAndFitAgainstNaive(t *testing.T) {
	rng := newRand(t)
	for n := 1; n < 100; n += 1 + n/6 {
		for round := range 20 {
			p := randomPiece(t, rng, n, round%2 == 1)
			order := permutation(rng, n)
			d, f := newDescent(p), newFit(p)
			for range 2 { // both are reused
				top, ok := d.run(order, math.MaxInt64)
				want, wantTop := naiveDescent(p, order)
				if !ok || top != wantTop {
					t.Fatalf("n %d: descent ends at %d, expected %d", n, top, wantTop)
				}
				for i := range want {
					if d.offset[i] != want[i] {
						t.Fatalf("n %d: descent puts box %d at %d, expected %d", n, i, d.offset[i], want[i])
					}
				}
				f.run(order, math.MaxInt64)
				for i, at := range naiveFit(p, order) {
					if f.offset[i] != at {
						t.Fatalf("n %d: first fit puts box %d at %d, expected %d", n, i, f.offset[i], at)
					}
				}
				if end, ok := d.run(order, top); ok || end < top {
					t.Fatalf("a descent limited to its own makespan %d ends at %d, %v", top, end, ok)
				}
			}
		}
	}
}

func TestPeaksAgainstScan(t *testing.T) {
	rng := newRand(t)
	p := randomPiece(t, rng, 60, true)
	table := newPeaks(p)
	for lo := range p.ticks {
		want := int64(0)
		for hi := lo + 1; hi <= p.ticks; hi++ {
			want = max(want, p.load[hi-1]+p.floor[hi-1])
			if got := table.over(lo, hi); got != want {
				t.Fatalf("largest load over [%d, %d) is %d, expected %d", lo, hi, got, want)
			}
		}
	}
}

// TestBoard: compression keeps who lives with whom, and the split loses no box.
func TestBoard(t *testing.T) {
	rng := newRand(t)
	for n := 1; n < 60; n++ {
		b := randomBuffers(rng, n, 3*n, 5)
		offsets := make([]mem.Offset, n)
		d := newBoard(b, nil, offsets)
		if int(d.ticks) > n {
			t.Fatalf("%d ticks for %d buffers", d.ticks, n)
		}
		for i := range b {
			for j := range b {
				together := b[i].Lower < b[j].Upper && b[j].Lower < b[i].Upper
				if (d.lo[i] < d.hi[j] && d.lo[j] < d.hi[i]) != together {
					t.Fatalf("buffers %v and %v: live together %v", b[i], b[j], together)
				}
			}
		}
		if mem.Bytes(d.bound) != LowerBound(b) {
			t.Fatalf("bound %d, expected %d", d.bound, LowerBound(b))
		}
		seen := make([]int, n)
		for _, p := range d.pieces(offsets) {
			for _, id := range p.ids {
				seen[id]++
			}
			if p.base+p.bound > d.bound {
				t.Fatalf("a piece at %d with bound %d: the whole has %d", p.base, p.bound, d.bound)
			}
		}
		for i, times := range seen {
			if times > 1 {
				t.Fatalf("buffer %d is in %d pieces", i, times)
			}
		}
	}
}
