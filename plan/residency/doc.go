// Package residency decides which idle memory leaves the device, when it leaves and when it comes
// back, so that a step fits under a limit that it would exceed with everything on the device.
//
// # Idea
//
// An item is memory that nobody touches for a while: optimizer states between two optimizer steps,
// an activation between its saving and the backward pass. Idle items can lend their memory while
// their contents lie on the host. A copy out occupies one direction of the link, a copy back the
// other; each direction serves one item at a time. Memory is free when the copy out has ended, and
// is taken again when the copy back begins.
//
//	4 | . . . B B . A .    #: everything else. A is idle over [0, 8), B over [1, 7).
//	3 | . . B # # B A .    With both on the device the peak is 6, at 3. The limit is 4,
//	2 | A B # # # # B A    a copy of A takes one unit of time, one of B half of that.
//	1 | A # # # # # # A    A leaves over [0, 1) and comes back over [6, 7). B stays: two
//	  +-----------------   bytes are too many, and A is the one that is needed last.
//	    0 1 2 3 4 5 6 7
//
// # What is asked for
//
// First the limit holds at every moment. Then no time is lost: the program waits only where an
// item that it needs cannot be back, or where memory that it asks for cannot have left. Last, as
// few bytes as possible leave. All times of the input are the program's: time stands still while
// it waits. Times of the output include the waits. Time 0 is best the end of the optimizer step:
// states are then idle from there to the next one, and no item wraps around.
//
// # How it is found
//
// Items that may travel in parts are cut into parts of the least size. For a given choice of what
// leaves, items leave in the order in which they become idle, as soon as they can (leaving.go), and
// come back in the order in which they are needed, as soon as it is safe (returning.go): from then
// on the load never passes the limit until the item is needed. The choice (choose.go) goes through
// time and lets leave, where the load is too high, what is needed last. Then it takes back what
// need not leave (prune.go). If no choice without waits is found, several with waits are compared.
//
// # What is proven
//
// Fit is exact. A limit can be kept, with whatever waits, if and only if it is at least Least: the
// maximum of the load, of the load plus what becomes idle at a moment, and of the load just before
// a moment plus what is needed then. Less is impossible, since an item cannot be away at either
// end of its idle time. It suffices: if everything leaves and the program waits at each rise for
// the copies out, nothing else is on the device.
//
// Returns are optimal for a choice and its copies out. In the order of need, no schedule has any
// item back earlier or waits less: if another schedule begins the j-th return at t, with i before j
// begun no earlier than here (induction), then at every moment from t to j's need both have the
// same items back, so no moment after t is unsafe here either, and the link is free no later.
//
// The fewest bytes leave without a wait, if idle times are nested as in a forward and a backward
// pass, and all parts have one size u, whatever the two rates. Let a choice of k parts be feasible,
// and exchange it for the k outermost ones. Sorted times of becoming idle get earlier, so that the
// r-th copy out ends no later; sorted times of need get later, so that the r-th copy back can begin
// no earlier. So at each moment at least as many parts are away, and each part is still out before
// it returns. The choice here is always a prefix of the outermost, one part is added only if
// the ones before do not suffice, so it is the shortest.
//
// Otherwise choosing is knapsack-hard, and the choice is a heuristic. Over 83,895 random problems
// of up to five items, brute force (any choice, any order) waited less in 278, 0.3 %, by at most
// four units of time, where a copy takes one to three. Where both waited as long, it let fewer
// bytes leave in ten; the plan had up to 1.75 times as many.
//
// # Invariants
//
// At no moment is the load plus what is on the device above the limit. Copies of one direction do
// not overlap. An item leaves after it is idle, is out before it comes back, and is back when the
// program needs it. The same problem has the same plan.
//
// # Cost
//
// O(n log n) for one schedule, and as much for each round of choosing, of which two or three are
// needed. Choosing and taking back have budgets in steps that are counted, no clock; where the one
// of choosing is used up, which no step that was tried comes near, nothing above about optimal
// choices holds.
package residency
