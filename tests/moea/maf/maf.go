// Package maf holds functions that many-objective optimizers are judged by: MaF1 to MaF15 (Cheng et
// al., A benchmark test suite for evolutionary many-objective optimization, Complex & Intelligent
// Systems 3, 2017), with the sizes of the CEC competitions of 2017 and 2018, and DTLZ1 to 4 (Deb et
// al., 2005).
//
// All are to be minimised over a box. Their fronts are known, so that an indicator can say how far
// a set of points is from one (package indicator).
package maf

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Problem is one function.
type Problem struct {
	Name         string
	Objectives   int
	Lower, Upper []float64

	values func(x, f []float64)
	front  func(points int) [][]float64
}

// Evaluate returns the objectives of x.
func (p *Problem) Evaluate(x []float64) []float64 {
	f := make([]float64, p.Objectives)
	p.values(x, f)
	return f
}

// Front returns about so many points that are spread over the front.
func (p *Problem) Front(points int) [][]float64 { return p.front(points) }

// Budget is how many evaluations the competitions allow.
func (p *Problem) Budget() int { return max(100_000, 10_000*len(p.Lower)) }

// Names are all problems, in their order.
func Names() (names []string) {
	for i := range 15 {
		names = append(names, fmt.Sprintf("MaF%d", i+1))
	}
	for i := range 4 {
		names = append(names, fmt.Sprintf("DTLZ%d", i+1))
	}
	return names
}

// New returns a problem by its name, with a number of objectives.
func New(name string, objectives int) (*Problem, error) {
	if objectives < 3 || objectives > 20 {
		return nil, fmt.Errorf("%d objectives: the problems have 3 to 20", objectives)
	}
	p := &Problem{Name: name, Objectives: objectives}
	family := strings.TrimRight(name, "0123456789")
	number, err := strconv.Atoi(name[len(family):])
	make := makers[family]
	if err != nil || number < 1 || number > len(make) {
		return nil, fmt.Errorf("there is no problem %q: choose from %s",
			name, strings.Join(Names(), ", "))
	}
	make[number-1](p)
	return p, nil
}

var makers = map[string][]func(p *Problem){
	"DTLZ": {dtlz1, dtlz2, dtlz3, dtlz4},
	"MaF": {maf1, maf2, maf3, maf4, maf5, maf6, maf7, maf8, maf9,
		maf10, maf11, maf12, maf13, maf14, maf15},
}

// box gives the problem n variables between 0 and 1.
func (p *Problem) box(n int) {
	p.Lower, p.Upper = make([]float64, n), make([]float64, n)
	for i := range n {
		p.Upper[i] = 1
	}
}

// shape sets f to the products that nearly all of these problems are made of: the first is that of
// all a, each next leaves out the last factor of the one before, and has b at its place instead.
func shape(m int, a, b func(i int) float64, f []float64) {
	product := 1.0
	for i := range m - 1 {
		f[m-1-i] = product * b(i)
		product *= a(i)
	}
	f[0] = product
}

// sphere is a shape on the unit sphere: x says how far around it, 1 a quarter.
func sphere(x, f []float64) {
	shape(len(f), func(i int) float64 { return math.Cos(x[i] * math.Pi / 2) },
		func(i int) float64 { return math.Sin(x[i] * math.Pi / 2) }, f)
}

// plane is a shape on the simplex whose coordinates sum to 1.
func plane(x, f []float64) {
	shape(len(f), func(i int) float64 { return x[i] }, func(i int) float64 { return 1 - x[i] }, f)
}

// distance is the sum of squares from the middle of the variables.
func distance(x []float64) (sum float64) {
	for _, v := range x {
		sum += (v - 0.5) * (v - 0.5)
	}
	return sum
}

// rugged is a distance with 11 local optima in each variable.
func rugged(x []float64) float64 {
	sum := float64(len(x))
	for _, v := range x {
		sum += (v-0.5)*(v-0.5) - math.Cos(20*math.Pi*(v-0.5))
	}
	return 100 * sum
}

func each(f []float64, change func(j int, v float64) float64) {
	for j, v := range f {
		f[j] = change(j, v)
	}
}

// power2 is 2 to the j.
func power2(j int) float64 { return math.Ldexp(1, j) }
