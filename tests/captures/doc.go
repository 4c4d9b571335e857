// Package captures asks what a private pool of CUDA graphs must hold, and whether replays are safe.
//
// # What is lost
//
// A graph remembers its addresses, so a pool can give nothing away, and what a capture has freed
// serves the captures that follow into the same pool. How much more than the most that lives at
// once does the pool hold in the end? That is all that a plan of the captures could save.
// Sequences are steps of recorded runs captured whole, such steps in several shapes one after
// the other, layers with a graph each for both passes (torch.cuda.make_graphed_callables), and an
// inference server's graphs for many batch sizes.
//
// # Replays
//
// A replay writes wherever its capture had a block, also where that was freed. Random programs of
// several pools, streams and regions, with driver calls that fail, follow each such byte to the
// memory behind it: it stays the same as long as the pool has a graph, and nobody outside the
// pool ever has it meanwhile.
package captures
