// Package paper simulates the allocator of the STAlloc paper (arXiv 2507.16274), to compare with.
// It is written from the paper's description, and computes addresses, statistics and driver calls
// as package baseline does; it touches no memory.
//
// # Idea
//
// Training repeats, so what three steps asked for says what later ones will ask for. The program
// runs three steps under the caching allocator, which are recorded; the recorded requests are
// planned; and the program is started again, with the plan. All that was planned lies in one
// region of fixed size, each request at the offset that the plan has for it. A request is
// recognised by its ordinal in the step, and taken for what was planned only if its size is the
// same; every other one is served by the caching allocator beside the region.
//
//	Profile  three steps of a recorded run: sizes and lives
//	Plan     offsets of set-up and first step, and of the second step, which all later ones repeat
//	New      the allocator of the second start
//
// # One request followed all the way
//
//	Malloc(5 MiB), in step 7
//	   ── at most 512 bytes? a cell, of a table of cells of 512 bytes
//	   ── inside an expert module? the smallest part that fits of the intervals that the plan
//	      leaves idle while its blocks live, else the cache
//	   ── entry 3041 of a step's plan: 5 MiB at offset 1,073,741,824, and these bytes are free
//	   ── the entry has another size, no offset, or its bytes are taken: the cache
//
// An unexpected request moves every later one of its step to a wrong entry, until the step ends.
//
// # Invariants
//
// No two live blocks overlap. A block of the region lies in it, one of a cell is alone there. All
// others are the cache's, and its own Check holds. Every statistic is the sum over the blocks.
// Check recounts all of it.
//
// # Modelling choices
//
// Where the paper leaves something open, this is as good for it as we can make it.
//
//   - The second start asks for what the first did, to the byte, for it is the same recording.
//   - What step 3 does not ask for as step 2 did, at the same ordinal, is not planned. The
//     authors' code refuses such a program.
//   - A plan is used only if the three steps reserve less with it than without. This, and whether
//     experts use the region, is found by trying it on these steps, as the paper's planner tries
//     variants; how groups are formed is tried in package plan/solve/paper.
//   - Module hooks tell the paper's allocator which requests are of experts. A recording has no such
//     marks; where at least eight stretches of a step have other sizes in the next, between runs of
//     requests that all steps share, the stretches are taken for expert modules.
//   - The paper's planner also tries to plan the experts' blocks of a layer as one group. That is
//     left out: it needs an upper bound of what later steps route.
//   - A block that lives from one step into the next takes the place of the one before it.
//   - Blocks of other streams than the one with the most requests are the cache's, and one that
//     another stream uses is free when that is done. The authors' code ignores streams, so it would
//     hand out memory that is in use.
//   - What is asked for after the last step is served as the authors' code serves an evaluation:
//     from the smallest free part of the region that has room, else by the cache.
//   - The table of cells is twice as large as the profile needs, as in the authors' code; what
//     is more is the cache's.
package paper
