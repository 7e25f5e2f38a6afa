"""A machine for AMD's final instructions: runs assembly as LLVM prints it with numbers, timed as badly as is allowed.

Needs   the text of a kernel for gfx90a, gfx942, gfx950, gfx1100, gfx1200, gfx1201 or gfx1250, and its arguments
Gives   `program.load`, `launch.run`: arrays after a run, and what was found: races on shared memory, registers that
        are used before their wait, hangs, addresses outside of memory; `mutate.mutants`; Triton's kernels (`triton`)
Keeps   it shares no code with the hosts that read assembly: it is made of the ISA documents; an instruction, modifier
        or operand that it does not know raises `NotUnderstood` with its name before anything runs
Cost    about 10 µs for an instruction of a wave; a product of matrices of 64 × 64 per workgroup takes half a second

    text → `text` → instructions → `program` → steps ← `scalar`, `vector`, `matrix`, `lanes`: what they compute
                                                     ← `shared`, `vector_memory`, `scalar_memory`, `tensor`: accesses
    steps → `machine`: waves, and when accesses are performed ← `counters`: what a wait makes certain
                                                              ← `barriers`, `races`: what orders what

The model: an access is issued in the order of its wave and performed at any time between its issue and the wait that
makes it certain. Accesses of one stream (`counters`) are performed in order; streams overtake each other. A run shows
a race whatever its timing was, as long as addresses and branches do not depend on raced values: it is the order that
is judged, not the moment. Not modelled: hazards of the pipeline (`s_nop`), denormals and rounding modes, translation
replays (`s_wait_xcnt`), named barriers, barriers in shared memory, factors of 4 and 6 bits and scaled products.
"""
