// Package gmlake is GMLake's released allocator (ASPLOS 2024, the open-source code
// rather than the paper) as a policy of the pool: events in and operations out, in the
// words of stalloc/engine, so that the two can be exchanged under a running program and
// compared on it. Recorded runs are replayed through the same state machine.
//
// # The idea
//
// Large memory is made of chunks, one 2 MiB handle each. A pBlock is an ordinary
// block of a caching allocator: new memory is one segment with an address range of
// its own, cut to the size asked for and merged with its free neighbours again. An
// sBlock, a stitched block, is a second address range over chunks that lie in
// several pBlocks. It is kept with its mapping when it is freed and serves again
// whenever all its chunks happen to be free.
//
//	segment   [ a: live ][ b: free    ][ c: live ]      [ d: free ]
//	sBlock    [ b b b b d d ]     idle; b and d may still be used by themselves
//
// # One request, followed all the way
//
// Up to 1 MiB a request belongs to the small pool: PyTorch's own algorithm over
// segments of 2 MiB. The original takes these from cudaMalloc; here they are
// handles mapped in the same window, which decides their addresses and nothing
// else. Above that it is rounded to chunks and tries, in this order (request.go):
//
//  1. the smallest free pBlock of its stream that holds it;
//  2. the smallest idle sBlock, if that is at most ReuseLimit times as large: only
//     its leading chunks are taken;
//  3. stitching the largest free pBlocks, from FragLimit on;
//  4. a new segment, all of it or nothing;
//  5. the same two again after every wholly free segment has been returned, idle
//     sBlocks over its chunks first.
//
// DefragLevel 1 and 2 put step 3 off until step 4, or step 5, has failed. When the
// addresses in sBlocks would exceed AutoGC, every idle sBlock is dropped first.
//
// # What differs from the released code
//
//   - Its defects are not imitated: every idle sBlock over a returned segment is
//     dropped, and one that was live then (doomed) is dropped once it is freed, at
//     the next boundary or whenever memory is short. Its reAlloc is not offered, nor
//     are PyTorch's settings of how blocks are split.
//   - Where the driver cannot map an sBlock, every idle one is dropped and it is tried
//     once more; the original drops a few at first, those idle for longest.
//   - Nothing is unmapped before the streams that used the range have been waited
//     for, and nothing counts as returned before the driver has returned it.
//   - Private pools of graphs neither give memory away nor lose a mapping until
//     EvTrim names them.
//   - It knows no plans: a request goes where the algorithm says.
//
// # Driver calls and failures
//
// Each batch that calls the driver ends with OpResume, and the books change only
// when EvResume, or EvFailed with the number of the op that failed, tells how far
// the driver got. So there is nothing to undo but mappings that were made, and a
// handle that was made for a request that failed is an unmapped handle, returned next.
//
// # Invariants
//
// Check recounts them all:
//
//   - the blocks of a segment tile it, free ones are in the free set of their heap,
//     and no two of them are neighbours;
//   - every chunk names the pBlock it lies in and the sBlocks that map it, and they
//     name it; one without a pBlock is mapped by doomed sBlocks only;
//   - an sBlock is ready if it is idle and all its chunks are in free pBlocks;
//   - every handle is in one chunk or unmapped.
package gmlake
