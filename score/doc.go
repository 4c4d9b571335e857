// Package score replays recorded runs through other people's allocators, and measures how well they
// do. Such an allocator is a program, a simulator: it reads events from standard input and writes
// answers to standard output, line by line.
//
// # Protocol
//
// It reads the recording's own lines (see package trace), with one before and one after:
//
//	c,<bytes>                            the device's memory
//	# step 0                             a step begins
//	a,<id>,<bytes>,<stream>,<µs>         a request
//	s,<id>,<stream>,<µs>                 another stream uses the block, too
//	r,<id>,<µs>                          the program frees the block
//	f,<id>,<µs>                          all streams are done with it: its memory may be reused
//	e,<µs>                               empty_cache
//	# end                                the last step has ended
//	q                                    the run has ended
//
// It answers three of them, each at once with one line, and no others:
//
//	a                    <address>,<reserved>    or    full
//	# step …, # end, q   <reserved>
//
// Numbers are decimal. An address is a multiple of 512; the address of a request of 0 bytes is
// ignored. Reserved is the peak of the memory, in bytes, that the simulator has taken from the
// device so far: it never falls, never exceeds the device's, and covers the 2 MiB pages that live
// blocks touch. For an allocator that stitches, so that two addresses may have the same memory,
// --stitched is given; then reserved must cover the bytes of blocks that the program has not freed.
// full ends the run: the device is full.
//
// A request may reuse blocks that are freed but still in use: the allocator waits for the other
// streams. Then a line w,<id> for each such block comes before the answer, and the block is gone.
// The time until the recorded f is reported, but not charged.
//
// Every answer but full may go on with two counts so far, <reserved>,<retries>,<µs>: requests that
// were served only after memory was given back, and the time in the driver. With them score also
// finds the smallest device at full speed.
//
// # Checks
//
// No two live blocks share a byte, from a to f or w. Addresses are aligned and below 2^63. Reserved
// and counts are as above. A broken rule, a line that is no answer or longer than 4 KiB, and a
// simulator that ends early or is silent for too long end the run with an Error that names the
// event and the line.
package score
