package plan

// Two steps of an irregular workload are compared by their structure, never by
// sizes: an expert layer makes the same requests in the same pattern of lives
// whatever the routing, while few of its sizes come again and a common size
// says nothing about the place.

// A token is one event of a step as the alignment sees it: an allocation, or a
// free together with its depth.
type token uint32

// MaxDepth caps the depth of a free: how many of the blocks live at that moment
// were allocated later than the one that is freed. Near the top of this order
// the depth tells which block of a function's temporaries goes; deep down it
// changes with everything above and says nothing.
const MaxDepth = 24

func tokenFree(depth int) token { return token(1 + min(depth, MaxDepth)) }

// tokens writes a step down as tokens. Live blocks are kept in the order of
// their allocation in a linked list, so that the depth of a free is a walk of
// at most MaxDepth links from the newest.
func (s *Step) tokens() []token {
	const end = -1
	newer, older := make([]int32, len(s.Blocks)), make([]int32, len(s.Blocks))
	newest := int32(end)
	push := func(b int32) {
		newer[b], older[b] = end, newest
		if newest != end {
			newer[newest] = b
		}
		newest = b
	}
	for i, b := range s.Blocks {
		if b.Alloc < 0 {
			push(int32(i))
		}
	}
	out := make([]token, len(s.Ops))
	for i, op := range s.Ops {
		b := op.Block
		if !op.Free {
			push(b)
			continue
		}
		depth := 0
		for at := newest; at != b && depth < MaxDepth; at = older[at] {
			depth++
		}
		out[i] = tokenFree(depth)
		if older[b] != end {
			newer[older[b]] = newer[b]
		}
		if newer[b] != end {
			older[newer[b]] = older[b]
		} else {
			newest = older[b]
		}
	}
	return out
}

// unaligned stands for a place of a that has none in b.
const unaligned int32 = -1

// align returns, for every place of a, the place of b that it corresponds to in
// a shortest edit script, or unaligned. (Myers, "An O(ND) Difference Algorithm
// and Its Variations", Algorithmica 1986, in its linear-space form.)
func align(a, b []token) []int32 {
	l := aligner{a: a, b: b, to: make([]int32, len(a))}
	for i := range l.to {
		l.to[i] = unaligned
	}
	n := 2*(len(a)+len(b)) + 4
	l.fore, l.back = make([]int32, n), make([]int32, n)
	l.box(0, int32(len(a)), 0, int32(len(b)))
	return l.to
}

// costCap bounds the edits that are searched for one middle of the script. Two
// steps that differ more are cut at the place that was reached farthest: the
// script is then not the shortest, which costs a few positions their slot,
// while time stays linear in the length of the steps.
const costCap = 2000

type aligner struct {
	a, b       []token
	to         []int32
	fore, back []int32 // farthest x by diagonal
}

// box aligns a[x0:x1] with b[y0:y1].
func (l *aligner) box(x0, x1, y0, y1 int32) {
	for {
		for x0 < x1 && y0 < y1 && l.a[x0] == l.b[y0] {
			l.to[x0] = y0
			x0++
			y0++
		}
		for x0 < x1 && y0 < y1 && l.a[x1-1] == l.b[y1-1] {
			x1--
			y1--
			l.to[x1] = y1
		}
		if x0 == x1 || y0 == y1 {
			return
		}
		x, y := l.middle(x0, x1, y0, y1)
		l.box(x0, x, y0, y)
		x0, y0 = x, y
	}
}

// nowhere marks a diagonal that no path has reached.
const nowhere int32 = -1 << 30

// middle finds a place that a shortest script from corner to corner passes: it
// extends the farthest reaching paths from both corners, one edit at a time,
// until two meet. The box has an edit at either end, so that the place is not a
// corner and both parts are smaller than the box. A diagonal k holds the places
// with x - y == k.
func (l *aligner) middle(x0, x1, y0, y1 int32) (int32, int32) {
	n, m := x1-x0, y1-y0
	delta, zero := n-m, m+2 // zero is where diagonal 0 stands in fore and back
	fore, back := l.fore[:n+m+5], l.back[:n+m+5]
	reach := func(v []int32, k int32) { v[max(k, -m-1)+zero] = nowhere }
	reach(fore, -1)
	reach(fore, 1)
	reach(back, delta-1)
	reach(back, delta+1)
	fore[zero], back[delta+zero] = 0, n
	for d := int32(1); ; d++ {
		reach(fore, -d-1)
		reach(fore, min(d+1, n+1))
		for k := max(-d, -m+(d+m)%2); k <= min(d, n); k += 2 {
			x := l.forward(fore[k+1+zero], fore[k-1+zero], k, n, m, x0, y0)
			fore[k+zero] = x
			if b := back[k+zero]; k >= delta-d+1 && k <= delta+d-1 && x >= 0 && b >= 0 && x >= b {
				return x0 + x, y0 + x - k
			}
		}
		reach(back, delta-d-1)
		reach(back, min(delta+d+1, n+1))
		for k := max(delta-d, -m+(delta+d+m)%2); k <= min(delta+d, n); k += 2 {
			x := l.backward(back[k+1+zero], back[k-1+zero], k, n, m, x0, y0)
			back[k+zero] = x
			if f := fore[k+zero]; k >= -d && k <= d && x >= 0 && f >= x {
				return x0 + x, y0 + x - k
			}
		}
		if d >= costCap {
			return farthest(fore, x0, y0, max(-d, -m), min(d, n), zero)
		}
	}
}

// forward extends a path to diagonal k: down from the diagonal above or right
// from the one below, whichever is farther, and then along equal tokens.
func (l *aligner) forward(above, below, k, n, m, x0, y0 int32) int32 {
	x := nowhere
	if above >= 0 && above-k <= m {
		x = above
	}
	if below >= 0 && below < n && below+1 > x {
		x = below + 1
	}
	if x < 0 {
		return nowhere
	}
	for x < n && x-k < m && l.a[x0+x] == l.b[y0+x-k] {
		x++
	}
	return x
}

// backward is forward from the other corner.
func (l *aligner) backward(above, below, k, n, m, x0, y0 int32) int32 {
	x := nowhere
	if above > 0 {
		x = above - 1
	}
	if below >= 0 && below-k >= 0 && (x < 0 || below < x) {
		x = below
	}
	if x < 0 || x-k < 0 || x-k > m {
		return nowhere
	}
	for x > 0 && x-k > 0 && l.a[x0+x-1] == l.b[y0+x-k-1] {
		x--
	}
	return x
}

// farthest returns the end of the path that went farthest from the first corner,
// on the diagonals from first to last.
func farthest(fore []int32, x0, y0, first, last, zero int32) (int32, int32) {
	best, at := nowhere, first
	for k := first; k <= last; k++ {
		if x := fore[k+zero]; x >= 0 && 2*x-k > best {
			best, at = 2*x-k, k
		}
	}
	x := fore[at+zero]
	return x0 + x, y0 + x - at
}
