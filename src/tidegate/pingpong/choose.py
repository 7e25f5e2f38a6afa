"""All strategies that are asked for, and the one that is taken.

Needs   a kernel and a target
Gives   `Scheduled`: every legal strategy with its price, why others are declined, and whether the choice is certain
Keeps   `auto` takes what is cheaper than the kernel as it is by more than `MARGIN`, by the cost model
Cost    that of the strategies; whether a choice is certain asks the cost model twice for each cost
"""

from __future__ import annotations

from tidegate.diag import BadInput, Finding
from tidegate.language.ops import Kernel
from tidegate.pingpong.make import as_it_is, bare_loop, in_clusters
from tidegate.pingpong.model import Candidate, Scheduled
from tidegate.pingpong.price import find_uncertain
from tidegate.scheduling.body import Body
from tidegate.scheduling.model import ASYNC_TWO, AUTO, CLUSTERS, MOST_CLUSTERS, NONE, TWO, Declined, clusters_of
from tidegate.scheduling.prefetch import prefetch
from tidegate.session import Session
from tidegate.simulate.judge import Progress
from tidegate.targets import Target

# What a loop is called that fetches an iteration ahead and is not reordered.
PREFETCHED = "prefetch"
# A new order that saves less is not worth its barriers.
MARGIN = 0.01
# How many clusters `clusters` tries, and what `auto` tries.
SEARCHED = (1, 2, 3, 4)
TRIED = (TWO, ASYNC_TWO, "clusters=1", "clusters=3", "clusters=4")


def schedule_kernel(
    kernel: Kernel,
    target: Target,
    strategy: str = AUTO,
    *,
    pipeline: bool = False,
    stagger: int = 1,
    certain: bool = True,
    progress: Progress = lambda *_: None,
) -> Scheduled:
    """The kernel with its loop in ping-pong. `pipeline`: a plain loop is made to fetch an iteration ahead first.

    `progress` is told how many strategies are tried, and of how many.
    Raises `BadInput` for a strategy that does not exist.
    """
    _check(strategy, stagger)
    made: list[Candidate] = []
    refused: list[tuple[str, Declined]] = []
    source = prefetch(kernel, target) if pipeline else kernel
    if isinstance(source, Declined):
        if strategy != AUTO:
            return Scheduled(strategy, None, (), ((strategy, source),))
        refused.append((PREFETCHED, source))
        source = kernel
    session = Session(kernel.name, target, kernel)
    plain = as_it_is(session)
    if isinstance(plain, Declined) and plain.reason == "misfit":
        return Scheduled(strategy, None, (), ((strategy, plain),))
    if source != kernel:
        session = Session(kernel.name, target, source)
        ahead = as_it_is(session, PREFETCHED)
        if isinstance(ahead, Candidate):
            made.append(ahead)
    body = bare_loop(session) if _tried(strategy) else None
    for number, name in enumerate(_tried(strategy)):
        progress(number, len(_tried(strategy)))
        found = _made(body, name, stagger) if isinstance(body, Body) else body
        if isinstance(found, Candidate):
            made.append(found)
        elif found is not None:
            refused.append((name, found))
    return _choose(strategy, plain, made, refused, target, certain)


def _tried(strategy: str) -> tuple[str, ...]:
    return TRIED if strategy == AUTO else (strategy,) if strategy != NONE else ()


def _made(body: Body, strategy: str, stagger: int) -> Candidate | Declined:
    """One strategy; for `clusters` the cheapest number of them, with one to spare if none is legal without."""
    clusters = clusters_of(strategy)
    if clusters:
        return in_clusters(body, strategy, clusters, stagger)
    found: list[Candidate | Declined] = []
    for spare in (False, True):
        tried = (in_clusters(body, f"{CLUSTERS}={n}", n, stagger, spare=spare) for n in SEARCHED[spare:])
        found.extend(tried)
        made = [each for each in found if isinstance(each, Candidate)]
        if made:
            return min(made, key=_cycles)
    return next(each for each in found if isinstance(each, Declined))


def _cycles(found: Candidate) -> float:
    return found.price.cycles if found.price else float("inf")


def _check(strategy: str, stagger: int) -> None:
    if strategy not in (AUTO, CLUSTERS) and clusters_of(strategy) is None:
        known = f"one of: {AUTO}, {NONE}, {TWO}, {ASYNC_TWO}, {CLUSTERS}, {CLUSTERS}=K with K from 1 to {MOST_CLUSTERS}"
        raise BadInput(Finding("TG022", f"there is no strategy `{strategy}`", (), help=known))
    if stagger not in (1, 2):
        raise BadInput(Finding("TG022", f"a stagger cannot be {stagger} here", (), help="1 or 2 arrivals"))


def _choose(
    asked: str,
    plain: Candidate | Declined,
    made: list[Candidate],
    refused: list[tuple[str, Declined]],
    target: Target,
    certain: bool,
) -> Scheduled:
    candidates = [*([plain] if isinstance(plain, Candidate) else []), *made]
    if asked != AUTO:
        wanted = PREFETCHED if asked == NONE and made else asked
        if isinstance(plain, Declined) and asked == NONE:
            refused.append((NONE, plain))
        taken = next((each for each in candidates if each.strategy == wanted), None)
        if asked == CLUSTERS:
            taken = next((each for each in made if each.arrangement is not None), None)
        return Scheduled(asked, taken, tuple(candidates), tuple(refused))
    if not candidates:
        return Scheduled(asked, None, (), tuple(refused))
    chosen = min(candidates, key=_cycles)
    if isinstance(plain, Candidate) and _cycles(plain) <= _cycles(chosen) * (1 + MARGIN):
        chosen = plain
    others = [each for each in candidates if each is not chosen]
    uncertain = find_uncertain(chosen, others, target) if certain else ()
    return Scheduled(asked, chosen, tuple(candidates), tuple(refused), uncertain)
