"""A brute-force twin for barriers in Wave traces: a generator of kernels, a judge of traces, a loop that compares."""

from .judge import Problem, Verdict, judge
from .setting import Setting, Unsupported

__all__ = ["Problem", "Setting", "Unsupported", "Verdict", "judge"]
