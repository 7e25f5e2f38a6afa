"""What a graph leaves open while it runs: free branches, and numbers that nobody knows.

Needs   which decision is asked for: the point, the iteration, the wave
Gives   an answer, the same one for the same question
Keeps   waves that must agree are given one answer
        the decisions of a run can be replayed, and the next run be made from them
Cost    constant per decision
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.simulate.program_order import Key

Question = tuple[object, ...]


@dataclass(slots=True)
class Choices:
    """Answers by number of the alternative; those that `script` does not say are 0, or random with a generator."""

    script: Sequence[int] = ()
    rng: random.Random | None = None
    asked: dict[Question, int] = field(default_factory=dict)
    counts: list[int] = field(default_factory=list)  # how many alternatives each question had, in order

    def choose(self, question: Question, alternatives: int) -> int:
        if alternatives < 2:
            return 0
        if question not in self.asked:
            place = len(self.counts)
            self.counts.append(alternatives)
            if place < len(self.script):
                self.asked[question] = self.script[place] % alternatives
            else:
                self.asked[question] = self.rng.randrange(alternatives) if self.rng is not None else 0
        return self.asked[question]

    def branch(self, key: Key, wave: int, *, agree: bool) -> int:
        return self.choose((key, -1 if agree else wave), 2)

    def value(self, name: str, key: Key, wave: int, candidates: Sequence[int], *, agree: bool) -> int:
        return candidates[self.choose((name, key, -1 if agree else wave), len(candidates))]

    def next_script(self) -> list[int] | None:
        """The script of the next run, if all runs are gone through in order; None after the last."""
        taken = list(self.asked.values())
        for place in reversed(range(len(taken))):
            if taken[place] + 1 < self.counts[place]:
                return [*taken[:place], taken[place] + 1]
        return None
