package maf

import "math"

// maf13 is of three objectives, and the rest, all alike.
func maf13(p *Problem) {
	m, n := p.Objectives, 5
	p.box(n)
	for i := 2; i < n; i++ {
		p.Lower[i], p.Upper[i] = -2, 2
	}
	rest := func(f []float64, far float64) {
		v := f[0]*f[0] + math.Pow(f[1], 10) + math.Pow(f[2], 10) + far
		for j := 3; j < m; j++ {
			f[j] = v
		}
	}
	p.values = func(x, f []float64) {
		y := make([]float64, n)
		for i := range y {
			y[i] = x[i] - 2*x[1]*math.Sin(2*math.Pi*x[0]+float64(i+1)*math.Pi/float64(n))
		}
		c := math.Cos(x[0] * math.Pi / 2)
		f[0] = math.Sin(x[0]*math.Pi/2) + 2*y[3]*y[3]
		f[1] = c*math.Sin(x[1]*math.Pi/2) + 2*y[4]*y[4]
		f[2] = c*math.Cos(x[1]*math.Pi/2) + 2*y[2]*y[2]
		rest(f, y[3]*y[3]+y[4]*y[4])
	}
	p.front = func(points int) [][]float64 {
		out := onSimplex(3, points, normalise)
		for i, f := range out {
			out[i] = append(f, make([]float64, m-3)...)
			rest(out[i], 0)
		}
		return out
	}
}

// groups says which variables make the distance of which objective in maf14 and maf15: each has two
// groups, and their sizes follow a chaotic map.
func groups(m, variables int) (sizes []int) {
	c, sum := make([]float64, m), 0.0
	last := 0.1
	for j := range c {
		last = 3.8 * last * (1 - last)
		c[j] = last
		sum += last
	}
	for _, v := range c {
		sizes = append(sizes, int(v/sum*float64(variables)/2))
	}
	return sizes
}

// large gives the problem 20 variables for each objective, and returns how the distances of x come
// about: link is the factor of the variable behind the positions, and odd and even objectives have
// a distance each.
func (p *Problem) large(
	link func(share float64) float64, first, second func([]float64) float64,
) func(x, g []float64) {
	m := p.Objectives
	n := 20 * m
	p.box(n)
	for i := m - 1; i < n; i++ {
		p.Upper[i] = 10
	}
	sizes := groups(m, n-m+1)
	return func(x, g []float64) {
		y := make([]float64, n-m+1)
		for i := range y {
			y[i] = (1+link(float64(m+i)/float64(n)))*x[m-1+i] - 10*x[0]
		}
		for j, size := range sizes {
			far := first
			if j%2 == 1 {
				far = second
			}
			g[j] = (far(y[:size]) + far(y[size:2*size])) / float64(2*size)
			y = y[2*size:]
		}
	}
}

func maf14(p *Problem) {
	m := p.Objectives
	far := p.large(func(share float64) float64 { return share }, rastrigin, rosenbrock)
	p.values = func(x, f []float64) {
		g := make([]float64, m)
		far(x, g)
		plane(x, f)
		each(f, func(j int, v float64) float64 { return (1 + g[j]) * v })
	}
	p.front = func(points int) [][]float64 { return onSimplex(m, points, func([]float64) {}) }
}

func maf15(p *Problem) {
	m := p.Objectives
	bent := func(share float64) float64 { return math.Cos(share * math.Pi / 2) }
	far := p.large(bent, griewank, squares)
	p.values = func(x, f []float64) {
		g := make([]float64, m+1) // that of the next is added
		far(x, g[:m])
		sphere(x, f)
		each(f, func(j int, v float64) float64 { return (1 + g[j] + g[j+1]) * (1 - v) })
	}
	p.front = func(points int) [][]float64 {
		return onSimplex(m, points, func(f []float64) {
			normalise(f)
			each(f, func(_ int, v float64) float64 { return 1 - v })
		})
	}
}

func rastrigin(x []float64) (sum float64) {
	for _, v := range x {
		sum += v*v - 10*math.Cos(2*math.Pi*v) + 10
	}
	return sum
}

func rosenbrock(x []float64) (sum float64) {
	for i := range len(x) - 1 {
		a, b := x[i]*x[i]-x[i+1], x[i]-1
		sum += 100*a*a + b*b
	}
	return sum
}

func griewank(x []float64) float64 {
	product := 1.0
	for i, v := range x {
		product *= math.Cos(v / math.Sqrt(float64(i+1)))
	}
	return squares(x)/4000 - product + 1
}

func squares(x []float64) (sum float64) {
	for _, v := range x {
		sum += v * v
	}
	return sum
}
