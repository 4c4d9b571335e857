// Package period finds the steps of a training run in nothing but its sequence
// of requests and frees.
//
// # The idea
//
// A step takes memory and lets it go again. Over the steps of a run the load
// looks like this:
//
//	        ___/\            ___/\            ___/\
//	     __/     \        __/     \        __/     \
//	  __/         \    __/         \    __/         \
//	_/             |_,/             |_,/             |_,
//	               ^ ^
//	         release valley
//
// Blocks too small to matter for where a step ends are set aside (they still
// count in the load). What remains is a chain of large requests and large
// frees, and each place where large frees are followed by a large request is a
// valley. A valley has a level (the load there) and a fall (the bytes that the
// uninterrupted run of frees before it let go). The end of a step is the place
// that combines both: the load is back at its base and much was let go at once
// (gradients, the optimizer's temporaries). So valleys compete by
//
//	score = fall − 8·level
//
// and the weight says how many bytes of release one byte of load outweighs. The
// level alone would not do: recomputed graphs that survive until the next step
// put the lowest load of some runs in the middle of a step. The fall alone
// would not do either: with few trained parameters the largest run of frees is
// inside a layer.
//
// # How a period is confirmed
//
// Contenders are kept on a stack with falling scores, so that a better valley
// removes all lesser ones since the last equally good one. Layers, microbatches
// and the optimizer's inner loop therefore vanish when the step ends, and what
// meets its like again are valleys one whole period apart. Two gaps in a row
// that agree (in events and in height of the load) confirm a period. Sizes
// inside the step are never compared: in expert layers and with variable
// lengths they differ from step to step, while base and release do not.
//
// If several valleys of a period are good ones (before and after the optimizer),
// the one with the longest stretch of events behind it begins the step.
//
// # What is emitted
//
// A confirmed valley is remembered as a profile. From then on each one like it is a
// boundary: it comes with the large request behind the valley, a few small events later, at
// the same place of each step where steps are regular. After an interruption
// (evaluation, another batch size) the first valley that fits a remembered
// profile is a boundary again; what fits none has to be confirmed anew.
//
// The state is some ten kilobytes, whatever the length of a step, and no event
// allocates.
//
// # Limits
//
// While a run has shown nothing but microbatches, microbatches are its period:
// with gradient accumulation the first two steps are cut into them. Two steps
// are needed again when the base of the load moves (more layers are trained, a
// second model). Where gradients are set to zero instead of released, or only a
// small part of the model is trained, the boundary may lie in front of the
// optimizer instead of behind it, at the same place of every step. Where in
// addition the last release varies with the data, or the optimizer's loop rises
// higher than the passes, no boundary may be found at all: say stalloc.step().
// The last boundary of a run needs one more request to show.
//
// # Usage
//
//	var d period.Detector
//	if d.Alloc(mem.Round(n)) {
//		// a step ended before this request
//	}
//	d.Free(size)
package period
