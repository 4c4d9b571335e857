// Package exact decides whether buffers fit below a capacity.
//
// # Idea
//
// The ideas are minimalloc's (Moffitt, "MiniMalloc: a lightweight memory allocator for
// hardware-accelerated machine learning", ASPLOS 2023). A placement in which no buffer can slide
// down is built from the bottom: each next buffer lies as low as what is placed allows, and no
// lower than the last one, so that every placement is met once. A branch ends where
//
//   - a section, the buffers that live at one tick, cannot hold what it still has to: what is left is
//     stacked there in the order in which it may begin, and ends above the capacity;
//   - a buffer would leave a hole that another fits into (dominance);
//   - a buffer has nothing above it, and no other place was any better (hatless);
//   - a buffer that is the same as another was tried in its place (symmetry);
//   - what is left, and how low each of it may lie, has failed before (failed.go).
//
// Where no buffer that is left lives across a tick, both sides are searched on their own. What is
// tried first is decided by orders that race (race.go): each part ranks its buffers when it begins.
//
// # Limits
//
// Every pair of buffers that live together takes memory, and the search is exponential: it is for
// some hundred buffers. Where a gap leaves a part of a buffer in place, a buffer below another in
// one tick and above it in the next is not looked for, so failure proves nothing.
package exact
