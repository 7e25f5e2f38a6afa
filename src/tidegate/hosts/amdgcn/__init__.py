"""AMDGCN assembly, as LLVM prints it."""
