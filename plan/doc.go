// Package plan decides, from what one training step did, where the next one's
// blocks will lie.
//
// # Idea
//
// A training step repeats itself, so the sizes and lives of its blocks are
// known before they are asked for. Placing them is dynamic storage allocation, which package
// descent does well enough for a step, and package solve as well as can be.
//
// # One step followed all the way
//
// Whoever observes a step makes a Buffer of each request: how long its block lives, and its
// size. descent.Around places them in the gaps that other blocks leave. The offsets bind nobody:
// whoever serves the next step puts a block at its planned offset if all bytes are free there,
// so a plan that is wrong costs places that are not the best and nothing else. A Plan is what
// is kept for a later run: the steps that came again, with the lives of their blocks. That run
// places them anew, around its own memory. Encode and Decode keep it between runs.
//
// # Invariants
//
// A Plan is immutable. Everything here is deterministic.
package plan
