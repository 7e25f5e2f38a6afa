"""Traces of Wave: of its kernels, of random ones, and of small ones by hand."""
