package pareto

import (
	"math"
	"math/rand/v2"
	"slices"

	"stalloc/plan/descent"
	"stalloc/plan/solve/dsa"
)

// Search looks for points of a problem with so many descents.
type Search func(p *dsa.Problem, descents int, seed uint64) []Point

// Searches are all, by name, the one that is used first.
var Searches = []struct {
	Name string
	Run  Search
}{{"maoea-cs", Corners}, {"weighted sum", WeightedSum}, {"random", Random}}

func random(rng *rand.Rand) (g Genome) {
	for k := range g {
		g[k] = rng.NormFloat64()
	}
	g[genes-1] = max(rng.NormFloat64()/2, 0)
	if rng.IntN(2) == 0 {
		g[descent.Features] = 0
	}
	return g
}

// first are the points that every search begins with: the portfolio of a live run.
func first(e *evaluator) (points []Point) {
	for _, w := range descent.Portfolio {
		var g Genome
		copy(g[:], w[:])
		points = append(points, e.judge(g))
	}
	return points
}

// Random judges random genomes.
func Random(p *dsa.Problem, descents int, seed uint64) []Point {
	e, rng := newEvaluator(p), rand.New(rand.NewPCG(seed, 4))
	points := first(e)
	for e.spent < descents {
		points = append(points, e.judge(random(rng)))
	}
	return points
}

func mutate(g Genome, rng *rand.Rand, step float64) Genome {
	for k := range g {
		g[k] += rng.NormFloat64() * step
	}
	g[genes-1] = min(max(g[genes-1], 0), 2)
	return g
}

// WeightedSum climbs down sums of the objectives, each scaled to what was met, with weights that
// change every so often.
func WeightedSum(p *dsa.Problem, descents int, seed uint64) []Point {
	e, rng := newEvaluator(p), rand.New(rand.NewPCG(seed, 5))
	points := first(e)
	const each = 20
	for e.spent < descents {
		low, high := extent(points)
		var weights Values
		for k := range weights {
			weights[k] = -math.Log(rng.Float64()) / max(high[k]-low[k], 1e-12)
		}
		cost := func(p Point) (sum float64) {
			for k, x := range p.Values {
				sum += weights[k] * x
			}
			return sum
		}
		best := slices.MinFunc(points, func(a, b Point) int { return int(math.Copysign(1, cost(a)-cost(b))) })
		for try := 0; try < each && e.spent < descents; try++ {
			next := e.judge(mutate(best.Genome, rng, 0.3))
			points = append(points, next)
			if cost(next) <= cost(best) {
				best = next
			}
		}
	}
	return points
}

func extent(points []Point) (low, high Values) {
	low, high = points[0].Values, points[0].Values
	for _, p := range points {
		for k, x := range p.Values {
			low[k], high[k] = min(low[k], x), max(high[k], x)
		}
	}
	return low, high
}

// Corners is MaOEA-CS (arXiv 1806.02967). The corners of the front are looked for first: for each objective the
// point that is best in it, and the one that is best in all others together. They say how large the
// front is, and so what is outside of it. Of what is inside those are kept that differ most in angle
// from the ones kept already.
func Corners(p *dsa.Problem, descents int, seed uint64) []Point {
	const size = 24
	e, rng := newEvaluator(p), rand.New(rand.NewPCG(seed, 6))
	all := first(e)
	for len(all) < size && e.spent < descents {
		all = append(all, e.judge(random(rng)))
	}
	population := all
	for e.spent < descents {
		corners := cornersOf(population)
		// The first half looks for corners, the second for what lies between.
		parents := corners
		if 2*e.spent > descents {
			parents = population
		}
		var children []Point
		for range min(size, descents-e.spent) {
			a, b := parents[rng.IntN(len(parents))], population[rng.IntN(len(population))]
			child := a.Genome
			for k := range child { // towards another, or away from it
				if rng.IntN(2) == 0 {
					child[k] += (rng.Float64() - 0.25) * (b.Genome[k] - child[k])
				}
			}
			children = append(children, e.judge(mutate(child, rng, 0.15)))
		}
		all = append(all, children...)
		population = choose(append(slices.Clone(population), children...), size)
	}
	return all
}

// cornersOf returns the best in each objective, and in all but each.
func cornersOf(points []Point) []Point {
	low, high := extent(points)
	var corners []Point
	for k := range Objectives {
		for _, others := range []bool{false, true} {
			cost := func(p Point) (sum float64) {
				for j, x := range p.Values {
					x = (x - low[j]) / max(high[j]-low[j], 1e-12)
					if (j == k) != others {
						sum += x * x
					} else {
						sum += 1e-6 * x // of equals the one that is better in the rest
					}
				}
				return sum
			}
			best := points[0]
			for _, p := range points {
				if cost(p) < cost(best) {
					best = p
				}
			}
			corners = append(corners, best)
		}
	}
	return corners
}

// choose keeps the corners, and then, of what is not dominated first, what differs most in angle.
func choose(points []Point, size int) []Point {
	front := Front(points)
	if len(front) <= size {
		for _, p := range points {
			if len(front) < size && !slices.Contains(front, p) {
				front = append(front, p)
			}
		}
		return front
	}
	corners := cornersOf(front)
	low, nadir := extent(corners)
	kept := Front(corners)
	direction := func(p Point) (v Values) {
		norm := 0.0
		for k, x := range p.Values {
			v[k] = (x-low[k])/max(nadir[k]-low[k], 1e-12) + 1e-6
			norm += v[k] * v[k]
		}
		for k := range v {
			v[k] /= math.Sqrt(norm)
		}
		return v
	}
	nearest := make([]float64, len(front)) // cosine of the least angle to what is kept
	for len(kept) < size {
		pick := -1
		for i, p := range front {
			nearest[i] = -1
			for _, q := range kept {
				a, b, dot := direction(p), direction(q), 0.0
				for k := range a {
					dot += a[k] * b[k]
				}
				nearest[i] = max(nearest[i], dot)
			}
			if pick < 0 || nearest[i] < nearest[pick] {
				pick = i
			}
		}
		kept = append(kept, front[pick])
	}
	return kept
}
