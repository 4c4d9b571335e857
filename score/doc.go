// Package score has allocators of other people serve recorded runs, and says how well they do. An
// allocator is a program, a simulator: it reads events on its standard input and answers on its
// standard output, in lines.
//
// # Protocol
//
// What it reads are the recording's own lines (see package trace), between two more:
//
//	c,<bytes>                            the device's memory
//	# step 0                             a step begins
//	a,<id>,<bytes>,<stream>,<µs>         a request
//	s,<id>,<stream>,<µs>                 another stream uses the block, too
//	r,<id>,<µs>                          its free is asked for
//	f,<id>,<µs>                          all streams are done with it: its memory may serve again
//	e,<µs>                               empty_cache
//	# end                                the last step has ended
//	q                                    the run has ended
//
// It answers three of them, each by a line, at once, and no other:
//
//	a                    <address>,<reserved>    or    full
//	# step …, # end, q   <reserved>
//
// Numbers are decimal. An address is a multiple of 512; that of a request of no bytes is not looked
// at. Reserved is the most memory, in bytes, that the simulator has taken from the device so far:
// it never falls, is never above the device's, and covers the 2 MiB pages that live blocks touch.
// An allocator that stitches, so that two addresses may have the same memory, says so to the
// command; of it reserved must cover the bytes of blocks whose free was not asked for.
// full ends the run: the device is full.
//
// A request may be served with memory of blocks whose free was asked for and is not done: the
// allocator waits for the other streams. Then a line w,<id> for each such block goes before the
// answer, and the block is over. How long that takes is told, as the time until the recorded f, and
// not charged.
//
// Every answer but full may go on with two counts so far, <reserved>,<retries>,<µs>: requests that
// were served only after memory was given back, and the time in the driver. With them the smallest
// device at full speed is told.
//
// # Checks
//
// No two live blocks share a byte, from a to f or w. Addresses are aligned and below 2^63. Reserved
// and counts are as above. What breaks a rule, a line that is no answer, one longer than 4 KiB, and
// a simulator that ends early or is silent for too long, end the run with an Error that names the
// event and the line.
package score
