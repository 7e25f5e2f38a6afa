"""Running kernels: the in-order machine, and the numeric layer that every simulator shares."""
