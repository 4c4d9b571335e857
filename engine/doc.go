// Package engine is the allocator's memory as a pure state machine: an event goes
// in, the operations now due come out. It holds no clock, goroutine or lock, calls
// no driver, and allocates nothing once its tables have grown to the workload.
//
// # The idea
//
// Device memory is made in handles of 2 MiB, the driver's granularity. A view is
// an address range over handles; the driver lets the same handle be mapped at
// several addresses, so free handles that lie apart are stitched into one range
// by mapping them a second time: nothing is copied, nothing unmapped, and work
// queued on the same stream needs no wait. What is free is counted in units of
// 512 bytes inside the handles, so a block may end in the middle of one and the
// next block, even of another view, begin there.
//
//	handles      1     2     3     4     5
//	           [aaaa][aa··][bbbb][····][····]      a, b live, · free
//	view 1      1 2 3 4      at 2 MiB
//	view 2      4 5 2        at 130 MiB: a block of 4 MiB in 4 and 5 is free here
//
// Stitching instead of new memory is GMLake's idea (ASPLOS 2024); sharing handles
// at 512 bytes, placing blocks where the last step had them, and the small slack
// before stitching starts are ours. Measured on the recorded traces in
// tests/traces (TestReplay prints the table), fragmentation is 0.23 % on average and
// 1.0 % at worst, where there are thousands of blocks of one to two MiB (fine_moe).
// A step that repeats exactly makes no driver call from the third on.
//
// # One request, followed all the way
//
// EvAlloc names a size, a stream and a pool. The pair (stream, pool) is a heap: a
// freed block serves its own heap at once and no other. The request goes down a
// ladder (place.go, stitch.go, limit.go):
//
//  1. the address that the request of the same size and ordinal had one step ago
//     (sticky.go), if steps repeat themselves and all of it is free;
//  2. the smallest free run that holds it (index.go), without a driver call;
//  3. stitching: the tail of a view extended, or a new view, whichever needs the
//     fewest new handles and then the fewest maps. The part beyond whole handles
//     goes into the tightest free end of a partly used handle;
//     A large block stitched from what is there gets a view of its own, which the
//     next one takes over by replacing only the pages others use (patch.go), and the
//     largest are kept apart from each other (big.go);
//  4. while the memory held stays within Config.Slack of the peak load, or
//     8 MiB, new handles rather than stitched ones: they keep later maps few. In the
//     first step, when the load has yet to grow, within Config.First (first.go);
//  5. when Config.Limit or the device forbids new handles: idle handles of other
//     streams after waiting for those, blocks that wait for fences after waiting
//     for them, once more the driver, and at last OpRefuse.
//
// The answer is a batch of ops that ends with OpGrant. The runner performs it in
// order. If op i fails it sends EvFailed{Failed: i}; the engine takes back what was
// not done, keeps what was created as free memory, and answers with the next rung.
// What may only happen after a call has succeeded (a wait, an unmap) is never in
// the same batch: that batch ends with OpResume, and EvResume continues it.
//
// EvFree gives the bytes back to every view that maps them (runs.go). If EvRecord
// named other streams, the block stays pending until a fence of each has passed.
//
// # Numbers instead of names
//
// Handles and fences are numbered by the engine: OpCreate and OpRecord say which
// number the runner's new handle or fence has. So a batch can use a handle it
// creates, and a replay of the same events gives the same ops, byte for byte.
//
// # Private pools and arenas
//
// A pool other than zero never gives memory away: a captured graph replays
// addresses after its blocks are freed. Its views are not evicted, its handles do
// not move, and EvTrim with its number, sent when nobody will replay it, is what
// releases it: what is free goes back to the driver, what is freed later is as good as
// the default pool's, until a request names the pool again.
//
// An arena (Whole) is one block over whole pages in a view of its own. What lives
// inside it, the planner's slots and the guests in its holes, is no business of the
// engine's; the tape that serves them guards them (package stream).
//
// # Invariants
//
// Check recounts them all:
//
//   - every unit of every handle is in one live or pending block, or free;
//   - the free runs of a view are exactly the free units of its pages whose
//     handles belong to the view's heap, maximal, each found by address and by size;
//   - only runs of shared views are found by size, those of private ones are not;
//   - a view maps a handle at most once; a block lies in one view;
//   - a handle without used units is on its heap's free list, another one on the
//     list of each end that has free units.
package engine
