// Package solve solves problems of dynamic storage allocation: buffers of known sizes and lives are
// given offsets, so that no two that live together share a byte, in as little memory as may be, or
// below a capacity. Compilers and runtimes of any kind have this problem; nothing here knows of
// steps, plans or PyTorch.
//
//	s, err := solve.Solve(&solve.Problem{Buffers: []solve.Buffer{
//		{Lower: 0, Upper: 4, Size: 2}, {Lower: 2, Upper: 6, Size: 1}, {Lower: 4, Upper: 8, Size: 2},
//	}}, solve.Options{})
//	// s.Offsets is [1 0 1], s.Top is 3, s.Optimal is true
//
// # Work
//
// A solver works in units, not in seconds, so that a problem, a budget and a seed have one result
// on every machine. New returns a solver at rest; Run has it work on for some units, from where it
// was, and returns the best placement until then. Solve runs until the budget is spent,
// Options.Progress says no, or the placement is as low as may be.
//
// # Solvers
//
// Solvers lists them, search, our own, is the default; each is a package of its own below this one,
// and reads a problem on compressed time (package dsa). A recorded step is solved by the first
// descent, a hard puzzle of some hundred buffers by the exact search.
//
// # Invariants
//
// There is a placement from the first unit on. Check, which shares no code with any solver, finds
// nothing wrong with what is returned, but a top above the capacity where Fits is false. Optimal
// and Never are proved.
package solve
