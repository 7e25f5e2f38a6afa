"""Footprints are bytes: a naive walk of the graph touches what the in-order machine touches, access by access."""

import random
from pathlib import Path

import pytest

from oracles.programs.graph_walk import walk
from oracles.programs.random_kernels import runnable_kernel
from tests.conftest import ROOT
from tidegate.graph.build import build_graph
from tidegate.graph.model import Branch, Havoc
from tidegate.language.ops import Kernel, ReadIndex, walk_ops
from tidegate.language.parse import parse
from tidegate.language.show import show
from tidegate.language.types import FLAG, INDEX
from tidegate.simulate import inorder
from tidegate.simulate.events import Access, Copy
from tidegate.simulate.inputs import fill_sizes
from tidegate.simulate.memory import LDS, touched_bytes
from tidegate.targets import load_target

FILES = sorted([*ROOT.glob("examples/*.tide"), *ROOT.glob("examples/broken/fixed/*.tide")])
# A walk of one wave cannot follow lanes that go different ways, nor numbers that come from memory.
BEYOND_A_WALK = {"fixed/divergent_barrier"}


def machine_touches(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> dict[int, list[tuple[str, frozenset[int]]]]:
    """What each wave of workgroup 0 touches in shared memory, as the in-order machine runs it."""
    found: dict[int, list[tuple[str, frozenset[int]]]] = {wave: [] for wave in range(kernel.waves)}
    groups: list[object] = []
    real = inorder._step

    def step(wave, barriers, memory):
        if not any(each is memory for each in groups):
            groups.append(memory)
        steps = wave.steps
        wave.steps = _Watch(steps, wave.number, found, memory is groups[0])
        try:
            return real(wave, barriers, memory)
        finally:
            wave.steps = steps

    monkeypatch.setattr(inorder, "_step", step)
    inorder.run(kernel, inorder.make_inputs(kernel))
    return found


class _Watch:
    """Passes a wave's events on and notes those that touch shared memory."""

    def __init__(self, steps, number, found, watching):
        self.steps, self.number, self.found, self.watching = steps, number, found, watching

    def send(self, answer):
        event = self.steps.send(answer)
        if self.watching and isinstance(event, Access) and event.cells.space == LDS:
            self.note(event.kind, event.cells)
        if self.watching and isinstance(event, Copy):
            for kind, cells in (("read", event.source), ("write", event.dest)):
                if cells.space == LDS:
                    self.note(kind, cells)
        return event

    def note(self, kind, cells):
        self.found[self.number].append((kind, frozenset(touched_bytes(cells).tolist())))


def compare(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> int:
    graph = build_graph(kernel, load_target(kernel.target)).graph
    expected = machine_touches(kernel, monkeypatch)
    env = {**fill_sizes(kernel, None), "wg0": 0, "wg1": 0, "wg2": 0}
    inputs = inorder.make_inputs(kernel)
    env.update({arg.name: int(inputs[arg.name[1:]]) for arg in kernel.args if arg.type in (INDEX, FLAG)})
    compared = 0
    for wave in range(kernel.waves):
        touches = list(walk(graph, wave, env))
        assert [touch.effect for touch in touches] == [kind for kind, _ in expected[wave]]
        for touch, (_, bytes_) in zip(touches, expected[wave], strict=True):
            assert bytes_ <= touch.bytes
            assert touch.may or bytes_ == touch.bytes
            compared += 1
    return compared


def name_of(path: Path) -> str:
    return path.stem if path.parent.name != "fixed" else f"fixed/{path.stem}"


def is_beyond_a_walk(path: Path) -> bool:
    kernels = parse(path.read_text(), path.name).kernels
    from_memory = any(isinstance(op, ReadIndex) for kernel in kernels for op in walk_ops(kernel.body))
    return from_memory or " lane " in path.read_text()


def test_what_is_left_out_is_known() -> None:
    assert {name_of(path) for path in FILES if is_beyond_a_walk(path)} == BEYOND_A_WALK


@pytest.mark.parametrize("path", [path for path in FILES if name_of(path) not in BEYOND_A_WALK], ids=name_of)
def test_footprints_are_the_bytes_that_the_machine_touches(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kernel in parse(path.read_text(), path.name).kernels:
        assert compare(kernel, monkeypatch) > 0 or "alloc" not in path.read_text()


def test_a_view_with_slots_of_its_own_counts_in_its_own_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
kernel @k() waves 2 {
  %a = alloc : lds<64xf32, slots = 2>
  %t = fill 1.0 : tile<4xf32>
  %v = view %a[1][8] : lds<8xf32, slots = 4>
  local_write %t, %v[wave + 1][4]
  %end = iterate %i in 0 .. 2 carry(%c = %v : lds<8xf32, slots = 4>) {
    local_write %t, %c[wave * 2]
    %w = view %c[1] : lds<8xf32, slots = 2>
    local_write %t, %w[wave]
    yield %c
  }
  local_write %t, %end[wave]
}"""
    assert compare(parse(text).kernels[0], monkeypatch) == 12


def test_steps_with_gaps_between_them_are_not_one(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
kernel @k() waves 2 {
  %a = alloc : lds<4x4x8xf32>
  %gaps = fill 1.0 : tile<2x2x4xf32>
  %rows = fill 1.0 : tile<2x4x4xf32>
  %whole = fill 1.0 : tile<2x4x8xf32>
  local_write %gaps, %a[wave, 1, 2]
  local_write %rows, %a[wave, 0, 4]
  local_write %whole, %a[wave * 2, 0, 0]
}"""
    assert compare(parse(text).kernels[0], monkeypatch) == 6


def can_be_walked(kernel: Kernel) -> bool:
    """No numbers from memory, no elements as indices, no lanes: nothing that a graph leaves open."""
    points = build_graph(kernel, load_target(kernel.target)).graph.points
    unknown = any(isinstance(point.action, Havoc) or point.action == Branch(None) for point in points)
    return not unknown and "lane" not in show(kernel)


def test_footprints_of_random_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    walked = touched = 0
    for seed in range(400):
        kernel = runnable_kernel(random.Random(seed))
        if can_be_walked(kernel):
            with monkeypatch.context() as patch:
                touched += compare(kernel, patch)
            walked += 1
    assert walked > 60
    assert touched > 1000
