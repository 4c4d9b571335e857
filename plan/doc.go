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
//	   3 | . . B B B B . .       B = [2, 6) size 1      peak  3: no arena is smaller
//	   2 | A A A A C C C C       C = [4, 8) size 2
//	   1 | A A A A C C C C       slots: A at 0, C at 0, B at 2
//	     +-----------------
//	       0 1 2 3 4 5 6 7  tick                    tape: +A +B -A +C -B -C
//
// The problem is NP-complete; the peak load is the only cheap lower bound, and
// training steps nearly always reach it.
//
// # One step followed all the way
//
// A Recorder takes the events of one stream and closes a Step at each boundary.
// Make turns the steps, one per stream, into problems of Buffers; Solve finds
// the offsets; the result is a Plan: for each stream an arena, the slots in it
// and the tape, the order in which they are served. MakeRun plans several kinds
// of step over one arena (training, evaluation), and a prologue, so that a later
// run is served from its very first request. Encode and Decode keep a plan
// between runs.
//
// # Steps that are not the same every time
//
// Expert layers and variable lengths repeat the pattern of a step but not its
// sizes. From two or three learned steps (Run.Earlier) each position of the last
// one is classified: the steps are aligned by an edit script over allocations and
// frees, the frees told apart by their depth, with large regular sizes as anchors
// (align.go, classify.go). Positions of one size get slots; positions that vary,
// and those seen only once, stay on the tape without an offset but with their
// free, so that their blocks can be guests in holes of the arena until then.
// An envelope, slots of the largest size seen, serves more requests and serves them
// faster. Where sizes move together, as with the length of the sequences, it costs
// little: a run holds the memory of its longest step anyway. The largest sizes of a
// step's experts never come together, and there it takes up to half more. Which it
// is, is found by trying (Run.Envelope).
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
// At every place of a tape the live slots are pairwise disjoint: this is what
// makes serving them safe without a lock, and Plan.Validate proves it for every
// plan made or read, sharing no code with the solver. A Plan is immutable.
// Everything here is deterministic: budgets count work, never time.
package plan
