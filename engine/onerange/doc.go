// Package onerange is the memory of a device as one contiguous range for each stream: a
// pure state machine with the events and operations of package engine. A plan has no
// memory of its own.
//
// # The idea
//
// A stream's memory is an arena: contiguous addresses over handles, of which some bytes are
// taken by blocks and the others are gaps. A request takes the smallest gap that holds it.
// Only a block for which there is no gap is stitched, alone, into a private view: addresses
// of its own over wholly free handles, which are mapped a second time there.
//
//	arena    | a a a · · · | · · b b · · | · · · · c c |        a, b, c live, · free, | handles
//	view                                    d d d d d d d d       over the two middle handles of
//	                                                              gaps, when nothing else is wide enough
//
// When a stitched block is freed its bytes are the arena's again, and the view stays mapped.
// A later block that it is large enough for takes it over; handles under it that are in use
// by then are replaced. So the patchwork of views never reaches the arena, where best fit goes on
// as if they were not there. Of the requests of a recorded run 0.01 to 1.6 % are stitched.
//
// An index knows what is free and where blocks begin (package index); the engine asks and updates
// it. Handles, voids, views, fences and prices are the engine's own.
//
// # Plans bind nobody
//
// A plan owns nothing. It says where a request is best placed (Event.Addr), and if all
// bytes are free there the block is put there; else the request is served like any other.
// Two live blocks cannot share a byte whatever a plan says.
//
// # One request, followed all the way
//
//  1. the planned offset, if its bytes are free;
//  2. the smallest gap (request.go);
//  3. a view over wholly free handles: an idle one, extended where it is too small, or a new one of
//     the largest handles, whichever is cheaper (candidate.go, stitch.go). A shortfall is made
//     first. A request that can wait for fences is refused in place of both, if as much waits for
//     them;
//  4. what other streams lend (lend.go), else new handles, whatever is free;
//  5. wholly free handles of other streams, and blocks that wait for fences, after waiting for
//     the device: a stream that had memory may be gone, and no handle of one is touched (reclaim.go);
//  6. all that is free, given back and made anew;
//  7. OpRefuse.
//
// Requests of at most 64 KiB have an arena of their own, of handles of 2 MiB, so that they
// do not split the gaps of large ones.
//
// # Pools of graphs
//
// From the first capture on (EvCapture), what is mapped at a private pool's addresses stays mapped
// until the pool is trimmed: no handle is given back or lent, a view is neither extended nor mapped
// again, and no fence is recorded for its blocks. Free memory serves the captures that follow.
//
// # Memory for regions
//
// EvLend makes streams lend handles to the device, for a region that comes back. A lent handle
// rests once its fence has passed: no block is placed in it, and it stays mapped. EvRise says that
// its memory is back, and it returns to the place it left (lend.go).
//
// # When the driver is at work
//
// Every batch that calls the driver ends with OpResume. The books change only when EvResume,
// or EvFailed with the number of the op that failed, tells how far the driver got
// (action.go). So there is nothing to undo but mappings that were made. A handle that was
// made for nothing is an unmapped handle and the first to be used next.
//
// # What memory may be spent on time
//
// All of that is in price.go, with its reasons.
//
// # Invariants
//
// Check recounts them:
//
//   - places of handles and voids tile the addresses of an arena;
//   - gaps and blocks tile the places; no two gaps touch, and the smallest is walked first;
//   - the block of a view occupies the handles under it, from the first on;
//   - what is held is the sum of all handles: in arenas, unmapped, at rest or lent.
package onerange
