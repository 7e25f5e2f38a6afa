"""Wave traces: running them."""
