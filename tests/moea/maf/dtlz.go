package maf

import "math"

func dtlz1(p *Problem) {
	m := p.Objectives
	p.box(m + 4)
	p.values = func(x, f []float64) {
		g := rugged(x[m-1:])
		plane(x, f)
		each(f, func(_ int, v float64) float64 { return 0.5 * (1 + g) * v })
	}
	p.front = func(points int) [][]float64 {
		return onSimplex(m, points, func(f []float64) {
			each(f, func(_ int, v float64) float64 { return v / 2 })
		})
	}
}

func dtlz2(p *Problem) { p.concave(distance, 1) }
func dtlz3(p *Problem) { p.concave(rugged, 1) }
func dtlz4(p *Problem) { p.concave(distance, 100) }

// concave makes DTLZ2 to 4: a sphere, a distance, and the power of the variables that say where on
// it.
func (p *Problem) concave(far func([]float64) float64, power float64) {
	m := p.Objectives
	p.box(m + 9)
	p.values = func(x, f []float64) {
		g := far(x[m-1:])
		around(x, f, power)
		each(f, func(_ int, v float64) float64 { return (1 + g) * v })
	}
	p.front = func(points int) [][]float64 { return onSimplex(m, points, normalise) }
}

// around is a sphere with a power of the variables: the higher it is, the more of them lead to its
// corners.
func around(x, f []float64, power float64) {
	if power != 1 {
		y := make([]float64, len(f)-1)
		for i := range y {
			y[i] = math.Pow(x[i], power)
		}
		x = y
	}
	sphere(x, f)
}

// normalise moves a point along its ray to the unit sphere.
func normalise(f []float64) {
	sum := 0.0
	for _, v := range f {
		sum += v * v
	}
	each(f, func(_ int, v float64) float64 { return v / math.Sqrt(sum) })
}
