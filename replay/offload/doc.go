// Package offload tells from a recording in how little memory a run would fit if its optimizer
// states left the device between two optimizer steps, and what that would cost.
//
// # What a recording knows
//
// It has requests and frees, with the host's times. It does not know what uses a block and when,
// nor what a block holds. So states are recognised by their lives: PyTorch's optimizers make them
// in their first step, one after the other, and they live as long as the run. Where the recording
// marks its phases ("# optimizer"), the states are all lasting blocks of that phase in the first
// step. Otherwise they are the run of lasting blocks near the end of the first step that has the
// most bytes, with nothing else requested or freed in between. On all 12 recordings in tests/traces
// that have marks and states both find the same blocks. What is not recognised: states that are
// made one by one beside temporaries, those of a recording that begins after the first optimizer
// step, and those of an optimizer that steps within the backward pass. A lasting buffer of another
// kind, made at that place in one row, would be taken for states.
//
// When the optimizer begins in later steps is what a mark says, or else as many requests before the
// end of the step as were made behind the states in the first one. Times are the host's, which runs
// ahead of the device: over whole steps the two keep pace, within a step they need not. So what is
// told of memory is as exact as the states are; what is told of time is an estimate. Memory is that
// of live tensors, as with PeakLoad: an allocator needs more.
package offload
