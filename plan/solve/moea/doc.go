// Package moea minimises several objectives at once: it looks for points of a box of which none is
// better than another in everything.
//
// # The algorithm
//
// MaOEA-CS, by Cai, Sun, Zhu, Li and Zhang (Locating the boundaries of Pareto fronts, arXiv
// 1806.02967), first in the CEC'2017 competition on evolutionary many-objective optimization. What
// the paper leaves open is as the authors' program for PlatEMO has it. A generation is made in one
// of two ways, and chosen in one:
//
//	exploit   children of the corners, by mutation alone      nine in ten generations, until
//	explore   pairs of the population, by SBX and mutation    the nadir has settled; then one in ten
//	select    nondominated → corners → nadir → inside → by angle
//
// Corners are the boundary of the front. Of the first kind there is one for each objective: the
// point nearest to its axis, which is the best in all other objectives together. The second kind is
// the best point in one objective, if it lies beyond the first ones, but not far. The largest
// values of all corners are the nadir point.
//
//	f2 ┤ c            c: a corner
//	   │ ·  ·   d     d: resists dominance: it gains little in one objective
//	   │   ·             for much in the other, and lies outside of the nadir
//	   │      ·    c
//	   └──────────── f1
//
// What is not dominated and lies outside of the nadir is left out, unless there are too few inside.
// Of what is inside corners are kept, and then again and again the point whose direction, seen from
// the ideal point in units of the nadir, differs most from all kept. Places that are left over go
// to dominated points, those nearest to the ideal.
//
// The first phase ends when no coordinate of the nadir has moved by a thousandth of itself for each
// objective in fifty generations. Operators: simulated binary crossover with index 20 of half of
// the variables, and polynomial mutation with index 20 of one variable on average; corners are
// mutated in one variable on average by a step of a distribution with a long tail, which becomes
// narrower to the end.
//
// # Units
//
// Values are rounded to a ten-thousandth where one point is to dominate another, and distances from
// axes and the ideal are taken in the objectives' own units, both as the authors' program does. So
// objectives have to be given in units in which all matter alike. Units of the nadir were tried
// instead: with a front that is a curve (MaF6) the corners then all come to lie at one end of it.
//
// # What differs
//
//   - A search of few generations waits for fewer than fifty: for an eighth of them, so that there
//     is a second phase.
//   - A search can begin with points that are known.
//
// # Usage
//
//	s, err := moea.New(problem, options)
//	for points := s.Ask(); len(points) > 0; points = s.Ask() {
//		err = s.Tell(evaluate(points)) // in parallel, if you like
//	}
//	front := s.Front()
//
// # Invariants
//
//   - The same seed and the same objectives make the same search on every machine, whoever
//     evaluates in whatever order. So each product is rounded before a sum takes it, and package
//     math is left to what IEEE 754 defines exactly.
//   - No more points are asked for than there are evaluations, all within the box.
//   - The population never loses a corner.
package moea
