"""CUDA C++ as a front end: source in, PTX out; `hosts.ptx` reads that."""
