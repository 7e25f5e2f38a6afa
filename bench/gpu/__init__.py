"""Runs on a GPU: what Tidegate's barriers make of Triton's kernels, and what single instructions take.

`python -m bench.gpu` compiles the kernels of `oracles/triton_kernels` without a GPU, runs them on one, and writes the
tables; `docs/gpu.md` says how. The scripts beside it measure a barrier and a read from memory alone.
"""
