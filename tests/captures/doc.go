// Package captures asks what a private pool of CUDA graphs must hold, and whether replays are safe.
//
// # What is lost
//
// A graph keeps its addresses, so a pool can give nothing away, and memory that a capture has freed
// serves later captures into the same pool. By how much does the pool exceed the peak of live bytes
// in the end? A plan of the captures could not save more. Sequences are steps of recorded runs
// captured whole, such steps in several shapes one after the other, layers with one graph for each
// pass (torch.cuda.make_graphed_callables), and an inference server's graphs for many batch sizes.
//
// # Replays
//
// A replay writes wherever its capture had a block, even if that was freed. For random programs of
// several pools, streams and regions, with driver calls that fail, the tests follow each such byte
// to the memory behind it: it stays the same as long as the pool has a graph, and nothing outside
// the pool has it meanwhile.
package captures
