package maf

import "math"

// maf1 is the inverted simplex.
func maf1(p *Problem) {
	m := p.Objectives
	p.box(m + 9)
	p.values = func(x, f []float64) {
		g := distance(x[m-1:])
		plane(x, f)
		each(f, func(_ int, v float64) float64 { return (1 + g) * (1 - v) })
	}
	p.front = func(points int) [][]float64 {
		return onSimplex(m, points, func(f []float64) {
			each(f, func(_ int, v float64) float64 { return 1 - v })
		})
	}
}

// maf2 is a part of the sphere, with a distance of its own for each objective.
func maf2(p *Problem) {
	m := p.Objectives
	p.box(m + 9)
	p.values = func(x, f []float64) {
		sphere(squeeze(x[:m-1]), f)
		y := squeeze(x[m-1:])
		part := len(y) / m
		each(f, func(j int, v float64) float64 {
			to := (j + 1) * part
			if j == m-1 {
				to = len(y)
			}
			return (1 + distance(y[j*part:to])) * v
		})
	}
	p.front = func(points int) [][]float64 {
		out := grid(m-1, points)
		for i, x := range out {
			out[i] = make([]float64, m)
			sphere(squeeze(x), out[i])
		}
		return out
	}
}

// squeeze moves variables to the middle half.
func squeeze(x []float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v/2 + 0.25
	}
	return y
}

// maf3 is convex and rugged.
func maf3(p *Problem) {
	m := p.Objectives
	p.box(m + 9)
	bend := func(f []float64) {
		each(f, func(j int, v float64) float64 {
			if j < m-1 {
				v *= v
			}
			return v * v
		})
	}
	p.values = func(x, f []float64) {
		g := rugged(x[m-1:])
		sphere(x, f)
		each(f, func(_ int, v float64) float64 { return (1 + g) * v })
		bend(f)
	}
	p.front = func(points int) [][]float64 {
		// Along a ray of weights w the front has sum sqrt(f) + f_m = 1, with f = t*w*w.
		return onSimplex(m, points, func(f []float64) {
			sum := f[m-1] * f[m-1]
			for _, w := range f[:m-1] {
				sum += w
			}
			each(f, func(j int, w float64) float64 {
				if j < m-1 {
					return w / sum * (w / sum)
				}
				return w * w / sum
			})
		})
	}
}

// maf4 is an inverted sphere, rugged, each objective twice as large as the one before.
func maf4(p *Problem) {
	m := p.Objectives
	p.box(m + 9)
	scale := func(f []float64) {
		each(f, func(j int, v float64) float64 { return power2(j+1) * v })
	}
	p.values = func(x, f []float64) {
		g := rugged(x[m-1:])
		sphere(x, f)
		each(f, func(_ int, v float64) float64 { return (1 + g) * (1 - v) })
		scale(f)
	}
	p.front = func(points int) [][]float64 {
		return onSimplex(m, points, func(f []float64) {
			normalise(f)
			each(f, func(_ int, v float64) float64 { return 1 - v })
			scale(f)
		})
	}
}

// maf5 is a sphere whose corners draw, each objective half as large as the one before.
func maf5(p *Problem) {
	m := p.Objectives
	p.box(m + 9)
	scale := func(f []float64) {
		each(f, func(j int, v float64) float64 { return power2(m-j) * v })
	}
	p.values = func(x, f []float64) {
		g := distance(x[m-1:])
		around(x, f, 100)
		each(f, func(_ int, v float64) float64 { return (1 + g) * v })
		scale(f)
	}
	p.front = func(points int) [][]float64 {
		return onSimplex(m, points, func(f []float64) {
			normalise(f)
			scale(f)
		})
	}
}

// maf6 has a front that is a curve, however many objectives there are.
func maf6(p *Problem) {
	m := p.Objectives
	p.box(m + 9)
	p.values = func(x, f []float64) {
		g := distance(x[m-1:])
		y := make([]float64, m-1)
		for i := range y {
			y[i] = (1 + 2*g*x[i]) / (2 + 2*g)
		}
		y[0] = x[0]
		sphere(y, f)
		each(f, func(_ int, v float64) float64 { return (1 + 100*g) * v })
	}
	p.front = func(points int) (out [][]float64) {
		y := make([]float64, m-1)
		for i := range y {
			y[i] = 0.5
		}
		for n := range points {
			y[0] = float64(n) / float64(max(points-1, 1))
			f := make([]float64, m)
			sphere(y, f)
			out = append(out, f)
		}
		return out
	}
}

// maf7 has a front of 2^(m-1) pieces.
func maf7(p *Problem) {
	m := p.Objectives
	p.box(m + 19)
	last := func(f []float64, g float64) float64 {
		h := float64(m)
		for _, v := range f[:m-1] {
			h -= v / (1 + g) * (1 + math.Sin(3*math.Pi*v))
		}
		return (1 + g) * h
	}
	p.values = func(x, f []float64) {
		copy(f[:m-1], x)
		sum := 0.0
		for _, v := range x[m-1:] {
			sum += v
		}
		f[m-1] = last(f, 1+9*sum/float64(len(x)-m+1))
	}
	// In each of the first objectives the front lies between these.
	const a, b, c = 0.251412, 0.631627, 0.859401
	const share = a / (a + c - b)
	p.front = func(points int) [][]float64 {
		out := grid(m-1, points)
		for i, f := range out {
			each(f, func(_ int, v float64) float64 {
				if v <= share {
					return v / share * a
				}
				return b + (v-share)/(1-share)*(c-b)
			})
			f = append(f, 0)
			f[m-1] = last(f, 1)
			out[i] = f
		}
		return out
	}
}
