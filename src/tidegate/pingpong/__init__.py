"""Ping-pong from a loop to a proof: arrange, synchronize under stagger, verify, estimate, choose."""

from tidegate.pingpong.choose import schedule_kernel
from tidegate.pingpong.model import Candidate, Scheduled

__all__ = ["Candidate", "Scheduled", "schedule_kernel"]
