"""Final instructions, whatever the machine: registers as vectors over threads, control as a finite graph."""
