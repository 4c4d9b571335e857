// Package paper simulates the allocator of the STAlloc paper (arXiv 2507.16274) for comparisons. It
// is written from the paper's description, and computes addresses, statistics and driver calls as
// package baseline does; it touches no memory.
//
// # Idea
//
// Training repeats, so three steps tell what later ones will request. The program runs three steps
// under the caching allocator and is recorded; the recorded requests are planned; then the program
// is started again with the plan. All planned requests lie in one region of fixed size, each at its
// planned offset. A request is recognised by its ordinal in the step, and gets its planned offset
// only if its size is the same; every other request is served by the caching allocator beside the
// region.
//
//	Profile  three steps of a recorded run: sizes and lifetimes
//	Plan     offsets for set-up and first step, and for the second step, which later ones repeat
//	New      the allocator of the second start
//
// # One request followed all the way
//
//	Malloc(5 MiB), in step 7
//	   ── at most 512 bytes? a cell, from a table of cells of 512 bytes
//	   ── inside an expert module? the smallest gap that fits, in the intervals that the plan
//	      leaves idle while the module's blocks live; else the cache
//	   ── entry 3041 of a step's plan: 5 MiB at offset 1,073,741,824, and these bytes are free
//	   ── the entry has another size, no offset, or its bytes are taken: the cache
//
// An unexpected request moves every later one of its step to a wrong entry, until the step ends.
//
// # Invariants
//
// No two live blocks overlap. A block of the region lies inside it, and a cell has one block. All
// other blocks are the cache's, and its own Check holds. Every statistic is the sum over the
// blocks. Check recounts all of this.
//
// # Modelling choices
//
// Where the paper leaves something open, we choose in its favour, except for experts' groups.
//
//   - The second start makes the same requests as the first, to the byte, for both are the same
//     recording.
//   - A request of step 2 is planned only if step 3 has the same size at the same ordinal. The
//     authors' code refuses programs whose steps differ.
//   - A plan is used only if the three steps reserve less with it than without. This, and whether
//     experts use the region, is found by trying it on these steps, as the paper's planner tries
//     variants. Variants of groups are tried in package plan/solve/paper.
//   - Module hooks tell the paper's allocator which requests belong to experts. A recording has no
//     such marks. If at least eight stretches of a step have other sizes in the next step, between
//     runs of requests that all steps share, the stretches count as expert modules.
//   - The paper's planner also tries to plan the experts' blocks of a layer as one group. That is
//     left out: it needs an upper bound on what later steps route.
//   - A block that lives from one step into the next takes the place of its predecessor.
//   - Blocks of all streams but the one with the most requests are the cache's, and a block that
//     another stream uses is free when that use is done. The authors' code ignores streams, so it
//     hands out memory that is in use.
//   - Requests after the last step are served as the authors' code serves an evaluation: from the
//     smallest gap of the region that fits, else by the cache.
//   - The table of cells is twice as large as the profile needs, as in the authors' code; beyond
//     that the cache serves.
package paper
