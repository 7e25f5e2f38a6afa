"""What checks Tidegate from outside: oracles that share no code with the stages that they judge.

`twin` and `wave_twin` judge small programs by brute force, straight from the machine model; `wave_twin` takes traces.

The other modules ask real compilers. Kernels of `oracles/kernels`, written by hand as PTX and as LLVM IR, go through
ptxas and LLVM. Each proof of the `.tide` form relies on facts ("this read stays behind that write, with the barrier
between"), and these are looked up in the SASS or the AMDGCN assembly that came out, on all paths.

    compilers.py   run ptxas, nvdisasm and LLVM; a crash of LLVM ends a child process, not the test
    rows.py        each synchronization operation as instructions of each target
    corpus.py      the kernels, the lines that a twin takes away, and where each is compiled
    facts.py       a graph, unrolled for a few trips: which instruction has to stay before which other, and why
    code.py        final code as blocks of events, whatever it was read from
    sass.py, amdgcn.py, ptx.py, llvm.py   readers
    order.py       asks the facts of the final code
    from_triton.py Triton's texts of a kernel, before and after its last compiler
    sides.py       compares two texts of one program: on which side of each barrier and wait an access stands

`python -m bench.compilers` prints the table of docs/real-compilers.md.
"""
