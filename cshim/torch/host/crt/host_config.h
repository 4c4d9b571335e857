// Stands in for CUDA's header of this name where the toolkit is not installed: PyTorch's
// wheels bring the runtime's headers but not these. Used last, so that the real one wins.
