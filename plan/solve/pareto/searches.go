package pareto

import (
	"math"
	"math/rand/v2"
	"slices"

	"stalloc/plan/descent"
	"stalloc/plan/solve/dsa"
	"stalloc/plan/solve/moea"
)

// Search looks for points of a problem with so many descents.
type Search func(p *dsa.Problem, descents int, seed uint64) []Point

// Searches are all, by name, the one that is used first.
var Searches = []struct {
	Name string
	Run  Search
}{{"maoea-cs", ManyObjective}, {"weighted sum", WeightedSum}, {"random", Random}}

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
		best := slices.MinFunc(points,
			func(a, b Point) int { return int(math.Copysign(1, cost(a)-cost(b))) })
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

// The box of genomes. Weights count beside the others only. A variable of the last two that is
// negative stands for 0, so that nothing that stays and no margin are found often.
const (
	mostWeight = 4.0
	mostStay   = 3.0
	mostSlack  = 1.0
	belowZero  = -1.0
	population = 24
)

// ManyObjective is MaOEA-CS (package moea).
func ManyObjective(p *dsa.Problem, descents int, seed uint64) (all []Point) {
	e := newEvaluator(p)
	box := moea.Problem{
		Lower: slices.Repeat([]float64{-mostWeight}, genes),
		Upper: slices.Repeat([]float64{mostWeight}, genes), Objectives: Objectives,
	}
	for k, most := range map[int]float64{descent.Features: mostStay, genes - 1: mostSlack} {
		box.Lower[k], box.Upper[k] = belowZero, most
	}
	options := moea.Options{Evaluations: descents, Population: population, Seed: seed}
	for _, w := range descent.Portfolio {
		large := max(slices.Max(w[:]), -slices.Min(w[:]))
		genome := make([]float64, genes)
		for k, x := range w {
			genome[k] = x * min(mostWeight/large, 1) // the order is the same
		}
		options.First = append(options.First, genome)
	}
	_, err := moea.Minimize(box, options, func(points [][]float64) (values [][]float64) {
		for _, x := range points {
			g := Genome(x)
			g[descent.Features], g[genes-1] = max(g[descent.Features], 0), max(g[genes-1], 0)
			all = append(all, e.judge(g))
			values = append(values, all[len(all)-1].Values[:])
		}
		return values
	})
	if err != nil {
		panic(err) // box and values are ours
	}
	return all
}
