// Package stream serves the requests of one CUDA stream from a plan.
//
// # The idea
//
// A plan says for a step: these requests come in this order, this is the
// offset of each, here each block is freed. Written down as one list of events
// this is the tape:
//
//	entry     0        1        2       3        4       5        6
//	       A s0 4K  A s1 2M  F s0    A s2 4K  F s1    F s2     end
//	                            ^ cursor
//
// A cursor walks the tape. A request whose rounded size is the size of the
// entry under the cursor is a hit: its block is the slot of that entry, and
// handing it out is one addition. Every other request is a miss and goes to
// the dynamic pool. A free is looked up by address, never by size.
//
// # Why a hit can never overlap a live block
//
// The plan is valid: at every place of the tape the slots that the tape says
// are live there are pairwise disjoint (plan.Validate proves it once). So only
// two kinds of live memory can stand in the way of the slot under the cursor:
//
//  1. Owed slots: live although the cursor is past their free (their free is
//     late, or the cursor jumped over it). They are kept in a small set and a
//     candidate is tested against each. In a regular step the set is empty.
//     A set that overflows switches the tape off until the next step.
//  2. Guests: blocks the pool placed in a hole of the arena. They are counted
//     per page of the arena; a total of zero is one load.
//
// Slots that the cursor skipped are simply not live, and a skipped slot is
// never served late. These two tests are the guard. It has no switch.
//
// # Two implementations of one structure
//
// The quick cases, a matching request and a free, run in C (cshim/tape.h) on
// the caller's thread without entering Go. The same structure lies in memory
// that both sides share, so everything else (look-ahead after a mismatch, a
// step boundary, publishing) is written once, here. Types that C sees hold
// only integers of fixed size; cshim checks at start that both sides agree on
// every offset, and a differential test drives both with the same events.
package stream
