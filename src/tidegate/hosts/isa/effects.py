"""What operations do to shared memory and to other threads, as steps of nodes.

Needs   the values of addresses and operands, and the threads that take part
Gives   steps; problems where something is wrong or not modelled; notes where more is taken than may be touched
Keeps   a meeting counts only if every thread that has not ended takes part; a group that not all threads close which
        copy anywhere, and a wait that not all of these carry out, count for nothing. Threads that do not take part in
        an access are not in its table
Cost    linear in the threads
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from tidegate.hosts.isa import model as m
from tidegate.hosts.isa import nodes as n
from tidegate.hosts.isa.arithmetic import Calculator
from tidegate.hosts.isa.blocks import Blocks
from tidegate.hosts.isa.endings import find_endings
from tidegate.hosts.isa.lanes import agree, doubles, good_groups, may_double, tile_of, waves_in
from tidegate.hosts.isa.object_uses import ObjectUses
from tidegate.hosts.isa.objects import find_misuse
from tidegate.hosts.isa.pieces import find_pieces
from tidegate.hosts.isa.states import Mask, State
from tidegate.hosts.isa.values import ANYWHERE, GLOBAL, NO_TAGS, OUTSIDE, Numbers, Truths, Value
from tidegate.index import ZERO, Cond, Index, names

ADDRESSES = (1 << 32) - 1  # of shared memory
FAR = 1 << 28  # no address of shared memory, where addresses are numbers
MOST_PLACES = 64  # of one access in one thread, where they do not touch each other
Starts = tuple[int | None, ...]


class Effects:
    def __init__(self, code: m.Code, calc: Calculator, lanes: int, group: int, out: n.Explored) -> None:
        self.group = group
        self.tiles = out.tiles
        self.code, self.calc, self.lanes, self.out = code, calc, lanes, out
        self.arrays = {each.name: each for each in code.arrays}
        self.objects = ObjectUses(calc.threads, lanes, self.arrays, out)
        self.touched: dict[int, bool] = {}  # op by identity → whether all its places are exact
        self.copying: dict[str, Truths] = {}  # queue → threads that may have something in it
        self.told: Counter[object] = Counter()
        self.synced = 0  # how many steps have ordered anything
        self.known: dict[object, list[n.Step]] = {}  # what an operation did with the same values
        self.ends: list[tuple[n.Node, int, m.Op]] = []

    # --- memory ---

    def touch(
        self,
        op: m.Op,
        touch: m.Touch,
        address: Value,
        stored: Numbers | None,
        mask: Mask,
        node: n.Node,
        waves: n.Waves = None,
    ) -> None:
        """The steps are the same wherever the operation meets the same values: each round of a loop does."""
        key = (
            id(op),
            address.key,
            None if stored is None else stored.tobytes(),
            mask.may.tobytes(),
            mask.sure.tobytes(),
        )
        steps = self.known.get(key)
        if steps is None:
            steps = self.known[key] = []
            self.steps_of(op, touch, address, stored, mask, steps)
        if touch.counter and not steps:
            node.steps.append(n.Issues(op, touch.counter, waves))
        if waves is not None:
            steps = [replace(each, waves=waves) if isinstance(each, n.Access) else each for each in steps]
        if touch.counter:  # all of them are kept: each may be in flight while those before it are over
            node.steps.extend(replace(each, counts=not place) for place, each in enumerate(steps))  # type: ignore[arg-type]
            return
        node.steps.extend(self.told_twice(touch, steps, node) if address.among else steps)

    def waves_of(self, state: State) -> n.Waves:
        """The waves that are here, of a program whose instructions are those of waves; empty: nobody knows which."""
        if not self.code.by_wave or state.is_whole:
            return None
        may, sure = (waves_in(each, self.lanes) for each in (state.arm.mask.may, state.arm.mask.sure))
        return tuple(int(each) for each in np.flatnonzero(may)) if (may == sure).all() else ()

    def count_or_wait(self, op: m.Op, action: m.Issued | m.Touch | m.WaitCounts, state: State, node: n.Node) -> None:
        waves = self.waves_of(state)
        if isinstance(action, m.WaitCounts):
            self.synchronize(node, n.CountedWait(op, action.counts, waves))
        elif not isinstance(action, m.Touch) or action.counted:
            node.steps.append(n.Issues(op, action.counter, waves))

    def told_twice(self, touch: m.Touch, steps: list[n.Step], node: n.Node) -> list[n.Step]:
        """Of accesses that may touch the same places, the first two between meetings: others meet no one else.

        Two, since lanes of one wave that carry out one instruction together are not asked about.
        """
        found = []
        for step in steps:
            kind = (touch.effect, touch.operator, touch.element)
            key = (id(node), self.synced, replace(step, op=self.code.ops[0]), kind)
            self.told[key] += 1
            if touch.is_async or self.told[key] <= 2:
                found.append(step)
        return found

    def steps_of(
        self, op: m.Op, touch: m.Touch, address: Value, stored: Numbers | None, mask: Mask, steps: list[n.Step]
    ) -> None:
        tags = NO_TAGS if ANYWHERE in address.tags else address.tags & self.arrays.keys()
        tags = frozenset(self.arrays) if self.code.absolute else tags
        if touch.space == "any" and not tags:
            if not self.code.has_generic or (address.tags == {GLOBAL} and address.is_known):
                return  # no address of shared memory can have come here
            self.note(op, "an unknown address: treated as all of shared memory")
        lanes = self.taking_part(touch, mask.may)
        if not lanes.any():
            return
        self.touched.setdefault(id(op), True)
        if touch.is_async:
            self.copying[touch.queue] = self.copying.get(touch.queue, np.zeros_like(lanes)) | lanes
        if touch.pieces is not None:
            self.described(op, touch, address, mask, steps)
            return
        may = not mask.is_exact or OUTSIDE in address.tags
        found, lost = self.located(op, touch, address, lanes, tags)
        for array, starts in found.items():
            self.access(op, touch, array, starts, address.plus, touch.bytes, may, stored, steps)
        if (few := self.few(op, touch, address, lost, tags)) is not None:
            self.touched[id(op)] = False
            steps.extend(few)
        elif lost.any():
            self.touched[id(op)] = False
            self.note(op, f"a place that cannot be computed: treated as all of {self.named(tags)}")
            everywhere = tuple(0 if each else None for each in lost)
            if touch.effect == "write" and doubles(everywhere, touch.bytes, self.lanes):
                self.out.doubled.setdefault(id(op), op)  # for all that anybody knows
            for each in sorted(tags) or list(self.arrays):
                size = self.arrays[each].bytes
                steps.append(n.Access(op, each, everywhere, ZERO, size, True, True))

    def described(self, op: m.Op, touch: m.Touch, held: Value, mask: Mask, steps: list[n.Step]) -> None:
        """Pieces that a register describes, each named by a lane of every wave that takes part."""
        found = find_pieces(touch, held, mask, self.arrays, self.lanes)
        if found is None:
            self.touched[id(op)] = False
            self.note(op, "a place that cannot be computed: treated as all of shared memory")
            everywhere = tuple(0 if each else None for each in mask.may)
            steps.extend(n.Access(op, each.name, everywhere, ZERO, each.bytes, True, True) for each in self.code.arrays)
            return
        for array, starts, size in found:
            beyond = next((x for x in starts if x is not None and not 0 <= x <= array.bytes - size), None)
            if beyond is not None:
                self.problem(op, f"a matrix of which bytes {beyond}..{beyond + size} are not in `{array.name}`")
            steps.append(n.Access(op, array.name, starts, ZERO, size, not mask.is_exact))

    def few(self, op: m.Op, touch: m.Touch, address: Value, lost: Truths, tags: frozenset[str]) -> list[n.Step] | None:
        """One of a few places for each thread: each of them may be touched, or all between the first and the last."""
        if address.among is None or len(tags) != 1 or not lost.any():
            return None
        (array,) = (self.arrays[each] for each in tags)
        stride, count = address.among
        size = touch.bytes
        if stride <= size:
            size, count = size + stride * (count - 1), 1
        if count > MOST_PLACES or touch.collective:
            return None
        self.use(address.plus)
        text = f"a place that depends on what was read: treated as any of {address.among[1]} in `{array.name}`"
        first, taking = (address.base + touch.offset - array.base).tolist(), lost.tolist()
        found: list[n.Access] = []
        for x in range(count):
            starts = tuple(each + stride * x if on else None for each, on in zip(first, taking, strict=True))
            found.append(n.Access(op, array.name, starts, address.plus, size, True, size > touch.bytes))
        if touch.effect == "write" and may_double([each.starts for each in found], size, self.lanes):
            return None  # lanes that find the same place write what they like
        self.note(op, text)
        return [*found]

    def taking_part(self, touch: m.Touch, may: Truths) -> Truths:
        if not touch.lanes or touch.lanes >= self.lanes:
            return may
        lane = np.arange(self.calc.threads) % self.lanes
        return may & (lane < touch.lanes)

    def located(
        self, op: m.Op, touch: m.Touch, address: Value, lanes: Truths, tags: frozenset[str]
    ) -> tuple[dict[str, Starts], Truths]:
        """For each array where threads start in it, and the threads of which nobody knows."""
        lost = lanes & ~address.lanes
        known = lanes & address.lanes
        found: dict[str, Starts] = {}
        base = address.base + touch.offset
        if address.plus == ZERO:
            base = base & ADDRESSES  # an address below all arrays is a large one, and the offset brings it back
        homes = sorted(tags) or list(self.arrays)
        for name in homes:
            array = self.arrays[name]
            inside = (base >= array.base) & (base + touch.bytes <= array.base + array.bytes)
            if len(homes) == 1 and (tags or self.code.absolute):
                # Far beyond all memory a thread is meant to touch nothing: masks are made so (RDNA 3 ISA, 12.1.2).
                masks = self.code.absolute and address.plus == ZERO and touch.space != "near"
                mine = known & (base < FAR) if masks else known
                outside = mine & ~inside
                if address.plus == ZERO and outside.any():
                    self.outside(op, array, base - array.base, outside, touch)
            else:
                # What all threads share may lead from one array to another, and a number that is made of no array's
                # address says nothing: where arrays lie is up to the linker.
                mine = known & inside if tags and address.plus == ZERO else np.zeros_like(known)
            known = known & ~mine if len(homes) > 1 or not self.code.absolute else np.zeros_like(known)
            if mine.any():
                starts = (base - array.base).tolist()
                taking = mine.tolist()
                found[name] = tuple(each if on else None for each, on in zip(starts, taking, strict=True))
        return found, lost | known

    def access(
        self,
        op: m.Op,
        touch: m.Touch,
        array: str,
        starts: Starts,
        plus: Index,
        size: int,
        may: bool,
        stored: Numbers | None,
        steps: list[n.Step],
    ) -> None:
        self.use(plus)
        is_shared = touch.effect != "read" and doubles(starts, size, len(starts))
        as_one = is_shared and stored is not None and agree(starts, size, stored)
        if is_shared and touch.effect == "write" and touch.values and not as_one:
            self.out.copied[id(op)] = op
        if (
            is_shared
            and touch.effect == "write"
            and not as_one
            and id(op) not in self.out.doubled
            and doubles(starts, size, self.lanes)
        ):
            self.out.doubled[id(op)] = op
        steps.append(n.Access(op, array, starts, plus, size, may, False, as_one))

    def outside(self, op: m.Op, array: m.Array, starts: Any, lanes: Truths, touch: m.Touch) -> None:
        thread = int(np.flatnonzero(lanes)[0])
        first = int(starts[thread])
        text = f"thread {thread} {touch.effect}s bytes {first}..{first + touch.bytes} of `{array.name}`, which has"
        self.problem(op, f"{text} {array.bytes}", "TG301")

    def opaque(self, op: m.Op, opaque: m.Opaque, mask: Mask, node: n.Node) -> None:
        if opaque.orders:
            self.problem(op, opaque.why)
        if opaque.touches:
            self.note(op, f"{opaque.why}: it may read and write all of shared memory")
            everywhere = tuple(0 if each else None for each in mask.may)
            for array in self.code.arrays:
                node.steps.append(n.Access(op, array.name, everywhere, ZERO, array.bytes, True, True))

    def named(self, tags: frozenset[str]) -> str:
        return " and ".join(f"`{each}`" for each in sorted(tags)) or "shared memory"

    # --- meetings ---

    def synchronize(self, node: n.Node, step: n.Step) -> None:
        self.synced += 1
        node.steps.append(step)

    def meet(
        self, op: m.Op, state: State, mask: Mask, barrier: Value, count: Value | None, node: n.Node, blocks: Blocks
    ) -> None:
        if not (barrier.is_number and barrier.is_uniform):
            self.problem(op, "a barrier whose number is not a constant")
            return
        if count is not None:
            wanted = int(count.base[0]) if count.is_number and count.is_uniform else -1
            # Counts are multiples of a wave's lanes; a wave that is not full counts as one that is.
            whole = -(-self.calc.threads // self.lanes) * self.lanes
            if wanted != whole or not state.root.sure.all():
                self.problem(op, "a barrier for some of the block's threads")
                return
        assert isinstance(op.action, m.Meet)
        waves = self.waves_of(state)
        if mask.whole or waves:
            self.synchronize(node, n.Barrier(op, op.action.part, None if mask.whole else waves))
            return
        self.missing(op, state, mask, blocks)

    def missing(self, op: m.Op, state: State, mask: Mask, blocks: Blocks) -> None:
        """A barrier that not all threads come to, as far as anybody knows."""
        absent = state.root.may & ~mask.sure
        thread = int(np.flatnonzero(absent)[0])
        by_wave = (mask.may.reshape(-1, self.lanes) == mask.may[:: self.lanes, None]).all() if self.is_even else False
        text = f"a barrier that not all threads reach: thread {thread} {'does' if mask.is_exact else 'may'} not"
        if not mask.is_exact:
            self.problem(op, text)
        elif not by_wave:
            self.problem(op, text, "TG201")
        elif not self.is_met_elsewhere(state, blocks):
            self.problem(op, text, "TG202")
        else:
            self.problem(op, "barriers in arms taken by different waves")

    @property
    def is_even(self) -> bool:
        return self.calc.threads % self.lanes == 0

    def is_met_elsewhere(self, state: State, blocks: Blocks) -> bool:
        """Whether those who take another arm may come to a barrier there."""
        for frame in state.frames:
            if frame.branch < 0:
                continue
            for start in blocks.blocks[frame.branch].successors:
                beside, stack = {frame.join}, [start]
                while stack:
                    each = stack.pop()
                    if each not in beside:
                        beside.add(each)
                        stack.extend(blocks.blocks[each].successors)
                beside.discard(frame.join)
                there = any(isinstance(op.action, m.Meet) for each in beside for op in blocks.ops_of(each))
                if state.arm.block not in beside and there:
                    return True
        return False

    def meet_lanes(self, op: m.Op, state: State, mask: Mask, named: Value, node: n.Node) -> None:
        """Counts for a wave if all of its lanes that have not ended take part, and each names all of them.

        The same for each group of lanes, where the program is judged by groups.
        """
        if not self.is_even and self.calc.threads > self.lanes:
            rest = -self.calc.threads % self.lanes
        else:
            rest = (self.lanes - self.calc.threads) if self.calc.threads < self.lanes else 0
        pad = (0, rest)
        alive = np.pad(state.root.may, pad).reshape(-1, self.lanes)
        here = np.pad(mask.may if mask.whole else mask.sure, pad).reshape(-1, self.lanes)
        masks = np.pad(named.base, pad).reshape(-1, self.lanes)
        known = np.pad(named.lanes if named.plus == ZERO else np.zeros(self.calc.threads, bool), pad)
        known = known.reshape(-1, self.lanes)
        bits = np.left_shift(1, np.arange(self.lanes, dtype=np.int64))
        wanted = (alive * bits).sum(axis=1)
        covers = ((masks & wanted[:, None]) == wanted[:, None]) & known
        good = ((here & covers) | ~alive).all(axis=1)
        self.tiles.add(tile_of(alive, here, masks, known))
        waiting = np.pad(mask.may, pad).reshape(-1, self.lanes)
        present = (here * bits).sum(axis=1)
        lacking = waiting & (((masks & wanted[:, None] & ~present[:, None]) != 0) | ~known)
        if (lacking.any(axis=1) & ~good).any():
            self.problem(op, "a warp barrier that some of the lanes it names may not reach")
        elif (waiting & ((masks & bits) == 0)).any():
            self.problem(op, "a warp barrier that does not name all lanes that reach it")
        if self.group < self.lanes:
            good = good_groups(alive, here, masks, known, self.group)
            alive = alive.reshape(-1, self.group)
        waves = tuple(int(each) for each in np.flatnonzero(good & alive.any(axis=1)))
        if good.all():
            self.synchronize(node, n.Fence(op, None))
        elif waves:
            self.synchronize(node, n.Fence(op, waves))

    def commit(self, op: m.Op, mask: Mask, node: n.Node) -> None:
        self.synchronize(node, n.Commit(op, _all_or(mask)))

    def wait(self, op: m.Op, mask: Mask, count: int, copies: bool, node: n.Node) -> None:
        if copies:  # the same as closing the group first, PTX ISA 9.7.9.25.3.3
            self.commit(op, mask, node)
        self.synchronize(node, n.WaitGroups(op, count, _all_or(mask)))

    def use_object(
        self,
        op: m.Op,
        action: m.UseObject,
        address: Value,
        given: Value | None,
        mask: Mask,
        state: State,
        node: n.Node,
    ) -> int:
        """A number for an arrival."""
        found = self.objects.use(op, action, address, given, mask, state)
        if isinstance(found, str):
            self.problem(op, found)
        elif isinstance(found, n.Barrier):
            self.synchronize(node, found)
        elif action.what == "track":
            self.objects.track(found.object, mask, node)
        else:
            node.steps.append(found)
        return self.objects.number_of(op)

    def fence(self, op: m.Op, state: State, mask: Mask, node: n.Node) -> None:
        """Counts for the waves of which all lanes that have not ended are there."""
        if mask.whole:
            self.synchronize(node, n.ProxyOrder(op))
            return
        alive, here = (np.pad(each, (0, -len(each) % self.lanes)) for each in (state.root.may, mask.sure))
        good = (here | ~alive).reshape(-1, self.lanes).all(axis=1) & waves_in(mask.sure, self.lanes)
        if good.any():
            self.synchronize(node, n.ProxyOrder(op, tuple(int(each) for each in np.flatnonzero(good))))

    def is_of_all_who_copy(self, step: n.Step) -> bool:
        """Threads without copies have no groups: whether they close and wait for these makes no difference."""
        if not isinstance(step, n.Commit | n.WaitGroups) or step.threads is None:
            return True
        assert isinstance(step.op.action, m.Commit | m.WaitGroups)
        copying = self.copying.get(step.op.action.queue)
        return copying is None or not (copying & ~np.array(step.threads)).any()

    def end(self, op: m.Op, state: State, ended: Mask, node: n.Node) -> None:
        """Threads end while others go on: what they did last is not known to those who do not meet them again."""
        if (state.root.may & ~ended.sure).any():
            self.ends.append((node, len(node.steps), op))

    # --- notes ---

    def problem(self, op: m.Op, text: str, code: str = "") -> None:
        self.out.problems[n.Problem(op, text, code)] = None

    def note(self, op: m.Op, text: str) -> None:
        self.out.notes[n.Problem(op, text)] = None

    def use(self, expr: Index | Cond) -> None:
        self.out.uses_free.update(names(expr))

    def count(self) -> None:
        """What is said when everything was explored."""
        self.out.touches = len(self.touched)
        self.out.exact = sum(self.touched.values())
        for op, text in find_misuse(self.out.nodes, self.out.arrivals, self.calc.threads):
            self.problem(op, text)
        for op in find_endings(self.out.nodes, self.ends):
            self.problem(op, "threads that touch shared memory and end while others continue")
        for node in self.out.nodes:
            certain = [step for step in node.steps if self.is_of_all_who_copy(step)]
            self.out.parts_wait |= len(certain) < len(node.steps)
            node.steps = certain


def _all_or(mask: Mask) -> tuple[bool, ...] | None:
    return None if mask.whole else tuple(mask.sure.tolist())
