"""What checks Tidegate from outside: oracles that share no code with the stages that they judge.

`twin` and `wave_twin` judge small programs by brute force, straight from the machine model. The other modules put
kernels through ptxas and LLVM and read the order of accesses in the final code.
"""
