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
//  2. Guests: misses that were placed in a hole of the arena. The entries from
//     which one could be met are marked on the tape, so that the quick case need
//     not know of them.
//
// A third kind can only arise where the follower takes back a mistake: slots that
// were served further on. When the cursor goes back over them they become owed.
//
// A slot beyond the memory that the arena has (Cover) is not served either. Slots
// that the cursor skipped are simply not live. These tests are the guard. It
// has no switch.
//
// # Steps that are not the same every time
//
// An irregular step has the structure of the last one: the same pattern of
// requests and lives, with other sizes in it, and now and then a part left out or
// come twice. What the tape expects is therefore a position; where its size varies
// it has no slot, only an end (irregular.go).
//
// As long as request and entry agree nothing is computed, in Go or in C. When they
// do not, the follower is lost: it weighs all places near the cursor at once, as
// an alignment of events and entries (band.go), and goes on from the likeliest,
// back as well as forward (follow.go). Sizes count only where the step is regular.
//
// A miss whose end is foreseen becomes a guest: the smallest hole of the arena that
// no slot needs until well behind that end (holes.go, guest.go). Where the planner
// found room for it, a position that varies has a slot of its largest size, and its
// entry takes a range of sizes (range.go).
//
// # What a wrong match costs
//
// A block at the wrong place keeps a slot from being served, so that its request
// goes elsewhere while the arena holds the same bytes idle; near the peak of the
// step this costs as much as the slot is large, with one request in a hundred
// inserted or left out up to 10 % of the memory. The tape does nothing about that:
// whoever serves misses gives the whole arena to the pool before the pool grows
// beyond the largest load seen, and has it back at the next boundary. Lending
// single idle pages was tried: it saves hits, but asks for tens of thousands of
// mappings a step where the plan is bad. Refusing large slots while in doubt makes
// it worse, since a request that is refused its slot leaves it idle.
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
