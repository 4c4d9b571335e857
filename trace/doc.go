// Package trace reads recorded training runs: every request that
// reached an allocator, in the order it arrived, with the marks that say which
// step was running.
//
// # Formats
//
// Our own format is text, one event a line, the header first:
//
//	# workload gpt2_naive torch 2.11.0     header: "workload" or "megatron", then free text
//	# step 0                               mark
//	a,<id>,<bytes asked for>,<stream>,<µs> request
//	r,<id>,<µs>                            free requested
//	f,<id>,<µs>                            free completed
//	s,<id>,<stream>,<µs>                   record_stream: the block is used on that stream too
//	e,<µs>                                 empty_cache
//	k,<stack>,<caller's stack or nothing>,<file>:<line> <function>
//	a,<id>,<bytes asked for>,<stream>,<µs>,<stack>
//
// The last two are of recordings with stacks: a stack, numbered from zero, is
// that of its caller and one frame more, and is told before the first request
// with it. s and e are this package's additions; recordings without them are
// read as they are. Lines end in LF, CRLF is accepted, the last line's too: a file
// that stops in the middle of a line was cut short. An id names one block and
// never comes back. A block is requested, then its free is requested, then the
// free completes; a trace may end with live blocks.
//
// The other format is PyTorch's memory snapshot, the dictionary of
// torch.cuda.memory._snapshot() as pickled by torch.cuda.memory._dump_snapshot.
// The unpickler knows a closed list of opcodes that can only build plain data;
// everything that could name code (GLOBAL, REDUCE and their kin) is refused.
//
// Either may be gzip'd; what a file is, is decided by its first bytes.
//
// # Usage
//
//	t, err := trace.ReadFile("gpt2_naive.csv.gz")
//	for _, step := range t.Steps() {
//		for _, event := range t.Events[step[0]:step[1]] { ... }
//	}
//
// Open and Next read the same event by event, in memory that grows with the
// number of blocks only (one byte each). A snapshot has to be decoded whole
// before its first event: see Reader.
package trace
