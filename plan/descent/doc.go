// Package descent places blocks of which sizes and lives are known, in as little memory as may be,
// fast enough for a program that waits for its next step.
//
// # Idea
//
// It is dynamic storage allocation: rectangles, as wide as a life and as high as a size, that may
// slide up and down but not sideways, to be stacked without overlap as low as possible.
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
// # How offsets are found
//
// Time is compressed to the ticks that matter. The gaps are filled one after the other, the largest
// first, each from the bottom up: on the lowest place the box of best rank that lives within it
// (skyline.go, tree.go). Ranks come from one of five priorities after another, until a placement is
// as low as the goal, which is the first on most recorded steps. Searched priorities, first fit and
// exact search solve hard puzzles better: package solve has them.
// Training steps are none: of the recordings one, a virtual pipeline, is planned lower by first
// fit, and its replay is no better for it.
//
// # Invariants
//
// A Solution's buffers that live together are disjoint. Everything here is deterministic.
package descent
