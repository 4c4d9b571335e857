package maf

import "math"

// simplex returns Das and Dennis' points of the simplex, as many as there are without exceeding a
// number: one layer, or where a layer has only corners and edges two, the second half way to the
// centre.
func simplex(m, points int) (out [][]float64) {
	h := 1
	for binomial(h+m, m-1) <= points {
		h++
	}
	out = layer(m, h)
	if h >= m {
		return out
	}
	inner := 0
	for binomial(h+m-1, m-1)+binomial(inner+m, m-1) <= points {
		inner++
	}
	if inner > 0 {
		for _, w := range layer(m, inner) {
			each(w, func(_ int, v float64) float64 { return v/2 + 1/(2*float64(m)) })
			out = append(out, w)
		}
	}
	return out
}

// layer returns all points whose coordinates are multiples of 1/h.
func layer(m, h int) (out [][]float64) {
	w := make([]int, m)
	var fill func(j, left int)
	fill = func(j, left int) {
		if j == m-1 {
			w[j] = left
			point := make([]float64, m)
			for k, n := range w {
				point[k] = float64(n) / float64(h)
			}
			out = append(out, point)
			return
		}
		for n := range left + 1 {
			w[j] = n
			fill(j+1, left-n)
		}
	}
	fill(0, h)
	return out
}

func binomial(n, k int) int {
	c := 1
	for i := range k {
		c = c * (n - i) / (i + 1)
		if c > 1<<40 {
			return c
		}
	}
	return c
}

// onSimplex returns points of the simplex, each changed in place.
func onSimplex(m, points int, change func(f []float64)) [][]float64 {
	out := simplex(m, points)
	for _, f := range out {
		change(f)
	}
	return out
}

// primes are the bases of Halton's points.
var primes = []uint64{2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67}

// grid returns points of the unit cube: a grid where there are two dimensions at least in which it
// has five values, its borders included, and Halton's points elsewhere.
func grid(dims, points int) (out [][]float64) {
	side := int(math.Pow(float64(points), 1/float64(dims)) + 1e-9)
	if side < 5 {
		for n := range points {
			x := make([]float64, dims)
			for d := range x {
				x[d] = radical(uint64(n+1), primes[d])
			}
			out = append(out, x)
		}
		return out
	}
	total := 1
	for range dims {
		total *= side
	}
	for n := range total {
		x := make([]float64, dims)
		for d := range x {
			x[d] = float64(n%side) / float64(side-1)
			n /= side
		}
		out = append(out, x)
	}
	return out
}

// radical mirrors the digits of n at the point.
func radical(n, base uint64) (x float64) {
	for scale := 1 / float64(base); n > 0; n, scale = n/base, scale/float64(base) {
		x += float64(n%base) * scale
	}
	return x
}
