"""Memory as bytes: global memory with its arrays, and shared memory of a workgroup.

Needs   arrays, which global memory copies
Gives   `Memory`: bytes at addresses; `read` and `write` of some bytes for each lane
Keeps   an address that belongs to no array raises `Fault`; arrays stand apart, so that a wrong index is seen
Cost    one indexing for each access
"""

from __future__ import annotations

import numpy as np

START, GAP = 0x7F0000000000, 1 << 16


class Fault(Exception):
    """An access outside of memory."""


class Memory:
    """Bytes from `start` on; which of them exist is kept for each byte."""

    def __init__(self, size: int, start: int = 0, exists: bool = True) -> None:
        self.start = start
        self.bytes = np.zeros(size, np.uint8)
        self.exists = np.full(size, exists)

    def places(self, addresses: np.ndarray, width: int) -> np.ndarray:
        """Lanes by bytes, as places in `bytes`."""
        first = (addresses - np.asarray(self.start).astype(addresses.dtype)).astype(np.int64)
        if len(first) and (first.min() < 0 or first.max() + width > len(self.bytes)):
            raise Fault(f"address {int(addresses[np.argmax(first)]):#x} is outside of memory")
        found = first[:, None] + np.arange(width)
        if not self.exists[found].all():
            bad = addresses[~self.exists[found].all(axis=1)][0]
            raise Fault(f"address {int(bad):#x} belongs to no array")
        return found


class Shared(Memory):
    """Shared memory: outside of it a read gives zero and a write is dropped (CDNA 3 ISA §11.2); Triton relies on it."""

    ROOM = 16

    def __init__(self, size: int) -> None:
        super().__init__(size + self.ROOM)
        self.size = size

    def places(self, addresses: np.ndarray, width: int) -> np.ndarray:
        """Those outside are the room behind the memory."""
        outside = (addresses < 0) | (addresses + width > self.size)
        return np.where(outside, self.size, addresses)[:, None] + np.arange(width)

    def settle(self) -> None:
        """What was written outside is gone."""
        self.bytes[self.size :] = 0


class Global(Memory):
    """Arrays one after another, with gaps."""

    def __init__(self, room: int) -> None:
        super().__init__(room, START, exists=False)
        self.next = GAP

    def add(self, array: np.ndarray) -> int:
        """Copies an array in; its address."""
        at, size = self.next, array.nbytes
        self.bytes[at : at + size] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.exists[at : at + size] = True
        self.next = at + -(-size // GAP) * GAP + GAP
        return START + at

    def array(self, address: int, like: np.ndarray) -> np.ndarray:
        """What an array holds now."""
        at = address - START
        return self.bytes[at : at + like.nbytes].view(like.dtype).reshape(like.shape).copy()


def room_for(arrays: list[np.ndarray]) -> int:
    return GAP * (2 + len(arrays)) + sum(-(-each.nbytes // GAP) * GAP for each in arrays)
