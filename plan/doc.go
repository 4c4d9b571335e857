// Package plan decides, from what one training step did, where the next one's
// blocks will lie.
//
// # Idea
//
// A training step repeats itself, so the sizes and lives of its blocks are
// known before they are asked for. Placing them is dynamic storage allocation:
// rectangles, as wide as a life and as high as a size, that may slide up and
// down but not sideways, to be stacked without overlap as low as possible.
//
//	offset
//	   4 | . . . . . . . .       A = [0, 4) size 2      load  2 2 3 3 3 3 2 2
//	   3 | . . B B B B . .       B = [2, 6) size 1      peak  3: no less will do
//	   2 | A A A A C C C C       C = [4, 8) size 2
//	   1 | A A A A C C C C       offsets: A at 0, C at 0, B at 2
//	     +-----------------
//	       0 1 2 3 4 5 6 7  tick
//
// The problem is NP-complete; the peak load is the only cheap lower bound, and
// training steps nearly always reach it.
//
// # One step followed all the way
//
// Whoever observes a step makes a Buffer of each request: how long its block lives, and its
// size. SolveAround places them in the gaps that other blocks leave, Solve in an empty
// address space. The offsets are wishes: whoever serves the next step puts a block where it
// is wished if all bytes are free there, so a plan that is wrong costs places that are not
// the best and nothing else. A Plan is what is kept for a later run: set-up, the first
// steps and, if steps repeat, one of them. Encode and Decode keep it between runs. Package
// plan/predict makes offsets for steps of which no two have the same sizes.
//
// # How Solve finds offsets
//
// Time is compressed to the ticks that matter; what lives throughout goes to the
// base; the rest falls apart into pieces where nothing is live. Each piece is
// placed by the skyline descent or by first fit, under one priority after
// another: that of the last plan, a fixed portfolio, then random and climbed
// ones and promotion of the boxes that suffered; small pieces also by exact
// search. It ends at the first placement as low as the peak load, which is the
// first one tried on most recorded steps, or when the budget is spent.
//
// # Invariants
//
// A Solution's buffers that live together are disjoint: Validate proves it for those that
// tests solve, sharing no code with the solver. A Plan is immutable. Everything here is
// deterministic: budgets count work, never time.
package plan
