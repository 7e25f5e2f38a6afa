"""What each thing of a picture is called and how it looks.

Needs   nothing
Gives   tables in the order of the legend
Keeps   all colours are meant for the picture's own light ground
"""

from __future__ import annotations

GROUND, INK, FAINT, LINE, STRIPE = "#ffffff", "#1f2937", "#5b6675", "#cbd2da", "#f5f7f9"
BARRIER, CONDITIONAL = "#374151", "#c2185b"

# The kinds of bars.
BARS = {
    "global_read": ("global read, in flight", "#e8971e"),
    "global_write": ("global write", "#9a5b13"),
    "copy": ("copy to or from LDS, in flight", "#c8553d"),
    "local_read": ("LDS read", "#3b7dd8"),
    "local_write": ("LDS write", "#14919b"),
    "atomic": ("LDS atomic", "#5c4fc4"),
    "mma": ("matrix product", "#35a05a"),
    "other": ("other work", "#8a7f9e"),
}
# The kinds of clusters: letter, name, ground, ink.
CLUSTERS = {
    "memory": ("M", "memory cluster", "#cfe2fa", "#174a8c"),
    "matrix": ("C", "matrix cluster", "#c9ecd3", "#165a2d"),
    "both": ("M+C", "memory and matrix work", "#e4dcf5", "#4a2f86"),
    "other": ("", "other stretch between barriers", "#e7eaee", "#374151"),
}
# Why a wave does not go on.
REASONS = {
    "barrier": ("by a barrier", "#6b7280"),
    "wait": ("by a wait", "#c0392b"),
    "lds": ("by LDS", "#3b7dd8"),
    "global": ("by global memory", "#e8971e"),
    "mma": ("by a matrix unit", "#35a05a"),
    "alu": ("by other work", "#8a7f9e"),
    "issue": ("by another wave's turn", "#111827"),
}
# The kinds of barriers.
BARRIERS = {
    "plain": "barrier, where the wave goes on",
    "pinned": "pinned barrier",
    "conditional": "conditional barrier",
}
