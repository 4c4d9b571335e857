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
// size. SolveAround places them in the gaps that other blocks leave. The offsets are wishes:
// whoever serves the next step puts a block where it is wished if all bytes are free there,
// so a plan that is wrong costs places that are not the best and nothing else. A Plan is what
// is kept for a later run: set-up, the first steps and, if steps repeat, one of them. Encode
// and Decode keep it between runs. Package plan/predict makes offsets for steps of which no
// two have the same sizes.
//
// # How offsets are found
//
// Time is compressed to the ticks that matter. The gaps between what is fixed are filled one
// after the other, the largest first, each from the bottom up: on the lowest place the box of
// best rank that lives within it (skyline.go, tree.go). Ranks come from one of five priorities after
// another, until a placement is as low as the goal, which is the first on most recorded steps.
// Searched priorities, first fit and exact search solve hard puzzles better. Training steps
// are none: of the recordings one, a virtual pipeline, is planned lower by first fit, and its
// replay is no better for it.
//
// # Invariants
//
// A Solution's buffers that live together are disjoint. A Plan is immutable. Everything here is
// deterministic.
package plan
