// Package predict foresees the large requests of a step from its first three, so that
// offsets can be planned for them although no two steps have the same sizes.
//
// # The idea
//
// Where batches have another length, another image size or another graph each time, a
// step still makes the same requests in the same order and frees them in the same order;
// only the sizes differ, and they follow from a few numbers: tokens in the batch, nodes
// and edges. The first large requests of a step are made of these numbers. So
//
//	features   what the first three large requests ask for, in bytes, not rounded
//	position   the i-th large request of a step of one kind
//	size       of a position: a function of the features, learned from the last eight steps
//	life       from its request to its end, as places in the step's sequence of events
//
//	step 1   +100  +40  +100 | +200  +300 -   -  +20
//	step 2   +120  +50  +120 | +240  +360 -   -  +20
//	step 3   +110  +80  +110 | +220  +330 -   -  +20
//	step 4   +105  +60  +105 | at the fourth request: 210, 315, 20, and all their lives
//
// Only requests above Large are looked at. Scalars, logged values and the bookkeeping of
// batches vanish with the others, and so does nearly all that one step has and another has not.
//
// # One step followed all the way
//
// The caller tells a Learner of each large request, free and end, and of each boundary.
// Every request and every free becomes a token, a free with its depth: how many live blocks
// are younger. Steps with the same tokens are of one kind. While a step runs, the
// Learner knows of which kinds it is a beginning so far. At the fourth request it takes the
// likeliest of them (forecast.go) and derives every size (model.go) and every life. If it
// knows most of the bytes, and the load they come to is none that was never seen, that is the
// Forecast; the number in the Match of the request has changed, and the caller may have Plan
// find offsets around the blocks that live, then or beside the step: then those of the next
// requests, which will not wait for it, are found by a Space, which does what the range will. Each later request
// that has the size of its position is answered with a Match, which says where in the plan to look.
// A match is a wish and no more: whether the bytes are free is the caller's to know. If they
// are not, it says so (Taken) and puts the block elsewhere.
//
// If the tokens leave the kind and another one still agrees, that is forecast from there on. If
// none does, the step goes on by ordinal as long as sizes are right.
//
// # When nothing is planned
//
// Sizes that follow the routing of experts are no function of the features: where less than half of
// the bytes is known, there is no forecast. A share of right sizes is kept over about the
// last 32 requests; below 0.9 the rest of the step is left alone, and so it is where
// three quarters of about the last 128 matches found their bytes in use. Three such steps in
// a row, and the next is not forecast; after each other one twice as many, sixteen at most.
// Observation goes on meanwhile.
//
// # Evaluations
//
// An evaluation in front of a training step, which nobody marks, leaves the kind it began
// like. When no kind goes on like this and no more is live than at the least so far, a
// step ends there. So the evaluation is a step of its own, of a kind of its own.
//
// # Blocks that are done late
//
// The order of the frees is the program's, so the tokens do not depend on how far the device
// is behind. A life ends where the memory was free again: at the latest such place in the
// last eight steps, and an eighth of the wait later.
//
// # Invariants
//
// All state is bounded: eight kinds, eight steps of each, 65,536 events of a step, as many live
// blocks. In the steady state nothing allocates. An event costs at most 24 steps along the list
// of live blocks and eight comparisons; a forecast is linear in the step and is made once,
// and again at most once for each kind that drops out. No sequence of calls is an error. Plan
// does a bounded amount of work.
//
// # Usage
//
//	ref, m := learner.Alloc(size)
//	if m.Forecast != 0 && m.Forecast != forecast.Number && learner.Forecast(&forecast) {
//		offsets, top = predict.Plan(forecast.From, forecast.Positions, obstacles, goal)
//	}
//	if m.Forecast == forecast.Number { wish = offsets[m.Position] }
//	...
//	learner.Free(ref)  // the program's free
//	learner.Done(ref)  // its memory may serve others
//	learner.Boundary() // the step ends
package predict
