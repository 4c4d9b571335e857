// Package baseline simulates, call by call, the allocators this project is
// compared with: PyTorch's native caching allocator and the same with expandable
// segments. It computes addresses, statistics and driver calls; it touches no memory.
// GMLake, the third, is package engine/gmlake, the STAlloc paper's, the fourth, package paper.
//
// # The idea
//
// Both are the same machine with three parts exchanged. A request is
// rounded to a size n and belongs to one of two pools, small (n ≤ 1 MiB) or
// large, and to one CUDA stream. The machine asks, in this order, for a block:
//
//	search        among the free blocks          best fit / best fit that prefers not to grow
//	grow          from the driver                cudaMalloc / map pages behind a free block
//	available     give back oversize blocks, grow again (only with MaxSplit)
//	flush         give back all that is wholly free, grow again (counted as a retry)
//
// and the block found is cut to n. The machine is type core; the parts are the
// interface backend. Native is core with its own defaults, Expandable replaces
// search, grow and flush.
//
// # One request followed all the way
//
//	Malloc(5 MiB) ── process events ── round: n = 5 MiB, large pool
//	   free: 3  4  [20] 64 MiB        smallest block ≥ n of this stream, lowest address among equals
//	   [20] → 5 handed out, 15 back into the free set
//	Free ── recorded on another stream? then it waits, active but not allocated
//	     ── else it merges with its free neighbours of the same segment
//
// # States of a block
//
//	free     in the free set of its pool and stream; may merge           → live, and gone by merging or release
//	live     handed out                                                   → waiting or free, by Free
//	waiting  freed, but events on other streams have not passed           → free, by the first Malloc after Complete
//	unmapped expandable: addresses without memory                        → free, by mapping
//	gone     the record waits for reuse
//
// # Invariants
//
// The blocks of a segment tile it, linked in address order. No two neighbours
// are both free. A block is in a free set exactly when its state is free. Every
// statistic is the sum over the blocks. Check recounts all of it.
//
// # Modelling choices
//
// The driver does not define the addresses it returns; they matter only for
// ties between free blocks of equal size. Here no address is ever reused, and
// there are two spaces: RT for cudaMalloc and VM for reservations, which go
// upwards. With cudaMalloc's segments of the small pool going upwards and those
// of the large pool downwards, Native's peak of reserved memory is the measured
// one to the MiB on all nine runs recorded on an H100, so that is the default.
// With all of them upwards (Options.Ascending) it is up to 0.42 GiB away.
//
// When an event finishes is not known to a simulator either: the caller says so
// with Complete, or with Synchronize for all.
//
// Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11.
package baseline
