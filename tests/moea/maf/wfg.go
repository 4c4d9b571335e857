package maf

import (
	"math"
	"slices"
)

// maf10 to maf12 are WFG1, WFG2 and WFG9 (Huband et al., 2006), with a position parameter less than
// objectives.

// scaled gives the problem n variables, the i-th between 0 and 2i.
func (p *Problem) scaled(n int) {
	p.box(n)
	for i := range n {
		p.Upper[i] = 2 * float64(i+1)
	}
}

// unit returns variables between 0 and 1.
func (p *Problem) unit(x []float64) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v / p.Upper[i]
	}
	return y
}

// shiftLinear has its optimum at a.
func shiftLinear(y, a float64) float64 { return math.Abs(y-a) / math.Abs(math.Floor(a-y)+a) }

// flat is a where y lies between b and c. It is rounded as the competitions' is: it decides how
// hard maf10 is, since what follows takes the fiftieth root.
func flat(y, a, b, c float64) float64 {
	v := a + min(0, math.Floor(y-b))*a*(b-y)/b - min(0, math.Floor(c-y))*(1-a)*(y-c)/(1-c)
	return math.Round(v*1e4) / 1e4
}

func deceptive(y, a, b, c float64) float64 {
	return 1 + (math.Abs(y-a)-b)*(math.Floor(y-a+b)*(1-c+(a-b)/b)/(a-b)+
		math.Floor(a+b-y)*(1-c+(1-a-b)/b)/(1-a-b)+1/b)
}

func manyHills(y, a, b, c float64) float64 {
	u := math.Abs(y-c) / 2 / (math.Floor(c-y) + c)
	return (1 + math.Cos((4*a+2)*math.Pi*(0.5-u)) + 4*b*u*u) / (b + 2)
}

// bend returns a bias of y that depends on the mean u of others.
func bend(y, u float64) float64 {
	const a, b, c = 0.98 / 49.98, 0.02, 50
	return math.Pow(y, b+(c-b)*(a-(1-2*u)*math.Abs(math.Floor(0.5-u)+a)))
}

// nonSeparable mixes all.
func nonSeparable(y []float64) float64 {
	sum := 0.0
	for i, a := range y {
		sum += a
		for _, b := range y[i+1:] {
			sum += 2 * math.Abs(a-b)
		}
	}
	n := float64(len(y))
	half := math.Ceil(n / 2)
	return sum / half / (1 + 2*n - 2*half)
}

// finish sets the objectives from positions and a distance.
func finish(x, f []float64, far float64, surface func(x, f []float64)) {
	surface(x, f)
	each(f, func(j int, v float64) float64 { return far + 2*float64(j+1)*v })
}

func convex(x, f []float64) {
	shape(len(f), func(i int) float64 { return 1 - math.Cos(x[i]*math.Pi/2) },
		func(i int) float64 { return 1 - math.Sin(x[i]*math.Pi/2) }, f)
}

func mixed(x float64) float64 {
	return 1 - x - math.Cos(10*math.Pi*x+math.Pi/2)/(10*math.Pi)
}

func disconnected(x float64) float64 {
	c := math.Cos(5 * math.Pi * x)
	return 1 - x*c*c
}

// lastIs is convex but for the last objective.
func lastIs(last func(float64) float64) func(x, f []float64) {
	return func(x, f []float64) {
		convex(x, f)
		f[len(f)-1] = last(x[0])
	}
}

func maf10(p *Problem) {
	m := p.Objectives
	p.scaled(m + 9)
	p.values = func(x, f []float64) {
		y := p.unit(x)
		far, weights := 0.0, 0.0
		for i := range y {
			if i >= m-1 {
				y[i] = flat(shiftLinear(y[i], 0.35), 0.8, 0.75, 0.85)
			}
			y[i] = math.Pow(y[i], 0.02)
			if i >= m-1 {
				far += p.Upper[i] * y[i]
				weights += p.Upper[i]
			}
		}
		finish(y, f, far/weights, lastIs(mixed))
	}
	p.front = func(points int) [][]float64 { return p.alongRays(points, mixed) }
}

func maf11(p *Problem) {
	m := p.Objectives
	pairs := 5
	p.scaled(m - 1 + 2*pairs)
	p.values = func(x, f []float64) {
		y := p.unit(x)
		far := 0.0
		for i := m - 1; i < len(y); i += 2 {
			far += nonSeparable([]float64{shiftLinear(y[i], 0.35), shiftLinear(y[i+1], 0.35)})
		}
		finish(y, f, far/float64(pairs), lastIs(disconnected))
	}
	p.front = func(points int) [][]float64 { return p.alongRays(points, disconnected) }
}

func maf12(p *Problem) {
	m := p.Objectives
	p.scaled(m + 9)
	p.values = func(x, f []float64) {
		y := p.unit(x)
		behind := 0.0
		for i := len(y) - 1; i >= 0; i-- {
			v := y[i]
			if n := len(y) - 1 - i; n > 0 {
				y[i] = bend(v, behind/float64(n))
			}
			behind += v
			if i < m-1 {
				y[i] = deceptive(y[i], 0.35, 0.001, 0.05)
			} else {
				y[i] = manyHills(y[i], 30, 95, 0.35)
			}
		}
		finish(y, f, nonSeparable(y[m-1:]), func(x, f []float64) {
			shape(m, func(i int) float64 { return math.Sin(x[i] * math.Pi / 2) },
				func(i int) float64 { return math.Cos(x[i] * math.Pi / 2) }, f)
		})
	}
	p.front = func(points int) [][]float64 {
		return onSimplex(m, points, func(f []float64) {
			normalise(f)
			each(f, func(j int, v float64) float64 { return 2 * float64(j+1) * v })
		})
	}
}

// alongRays returns where rays of evenly spread weights meet the surface that is convex but for the
// last objective: the variables follow one by one, from the last, out of the ratio of two
// objectives. A place is left out if the last objective was as small for a smaller first variable,
// where all others are smaller.
func (p *Problem) alongRays(points int, last func(float64) float64) [][]float64 {
	m := p.Objectives
	out := onSimplex(m, points, func(f []float64) {
		w := make([]float64, m)
		for j, v := range f {
			w[j] = max(v, 1e-6)
		}
		x := make([]float64, m-1)
		product := 1.0
		for i := m - 2; i >= 1; i-- { // objective m-1-i over the first
			ratio := w[m-1-i] / w[0] * product
			x[i] = root(func(x float64) float64 {
				return 1 - math.Sin(x*math.Pi/2) - ratio*(1-math.Cos(x*math.Pi/2))
			})
			product *= 1 - math.Cos(x[i]*math.Pi/2)
		}
		ratio := w[m-1] / w[0] * product
		x[0] = root(func(x float64) float64 { return last(x) - ratio*(1-math.Cos(x*math.Pi/2)) })
		finish(x, f, 0, lastIs(last))
		for t := 0.0; t < x[0]; t += 1e-3 {
			if last(t) < last(x[0]) {
				f[0] = math.Inf(1)
			}
		}
	})
	return slices.DeleteFunc(out, func(f []float64) bool { return math.IsInf(f[0], 1) })
}

// root returns the first place where what begins positive is no longer.
func root(f func(float64) float64) float64 {
	const steps = 1000
	n := 0
	for n < steps && f(float64(n)/steps) > 0 {
		n++
	}
	low, high := float64(max(n-1, 0))/steps, float64(n)/steps
	for range 40 {
		if middle := (low + high) / 2; f(middle) > 0 {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
