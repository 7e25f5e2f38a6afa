"""One strategy for one kernel: the loop arranged, the kernel synchronized under stagger, and proved.

Needs   a kernel, a target, how many clusters
Gives   a `Candidate`, or why there is none
Keeps   nothing that could not be proved is given; pinned barriers of the kernel stay, others are placed anew
Cost    that of `sync` and of the cost model for each way to arrange the loop; the best is proved
"""

from __future__ import annotations

from functools import partial

from tidegate.graph.barriers import tally
from tidegate.pingpong.drafts import draft_clusters, draft_kernel, prove
from tidegate.pingpong.model import Candidate
from tidegate.pingpong.price import pays_priority
from tidegate.scheduling.body import Body, find_body, without_placed
from tidegate.scheduling.clusters import Arrangement, arrange, arrange_all
from tidegate.scheduling.emit import reordered
from tidegate.scheduling.model import ASYNC_TWO, NONE, TWO, Declined
from tidegate.scheduling.slices import split_products
from tidegate.session import Session


def as_it_is(session: Session, name: str = NONE) -> Candidate | Declined:
    """No new order: synchronized, and proved."""
    found = draft_kernel(session, name)
    return found if isinstance(found, Declined) else prove(found)


def bare_loop(session: Session) -> Body | Declined:
    """The loop that strategies arrange, in the kernel without what is placed anew."""
    assert session.kernel is not None
    kernel = without_placed(session.kernel)
    return find_body(kernel, session.target, session.built if kernel == session.kernel else None)


def in_clusters(
    body: Body, strategy: str, clusters: int, stagger: int = 1, *, spare: bool = False
) -> Candidate | Declined:
    """The cheapest of the ways to arrange a loop in so many clusters that can be proved.

    `spare`: products are not split, and the last cluster may be without one.
    """
    declined = _unlike(body, strategy)
    if declined is not None:
        return declined
    split = split_products(body, 1 if spare else clusters)
    if isinstance(split, Declined):
        plain = arrange(body, 2, stagger=stagger)
        return plain if isinstance(plain, Declined) and plain.reason == "not-pipelined" else split
    if split is not body.built.kernel:
        if split not in body.of_split:  # several numbers of clusters may split alike
            found = find_body(split, body.target)
            assert isinstance(found, Body)
            body.of_split[split] = found
        body = body.of_split[split]
    drafts = [_drafted(each, strategy, stagger) for each in _ways(body, clusters, stagger, spare)]
    refused = [each for each in drafts if isinstance(each, Declined)]
    for draft in sorted((each for each in drafts if isinstance(each, Candidate)), key=_rank):
        proved = prove(draft)
        if isinstance(proved, Candidate):
            return proved
        refused.insert(0, proved)
    return next((each for each in refused if each.reason != "no-memory"), refused[0])


def _unlike(body: Body, strategy: str) -> Declined | None:
    """Why a named strategy is not for this loop."""
    copies = bool(body.of_role("copy"))
    if strategy == TWO and copies:
        return Declined(
            "not-copies",
            f"`{TWO}` is for loops that write fetched tiles to shared memory",
            f"`{ASYNC_TWO}` is for copies",
        )
    if strategy == ASYNC_TWO and not copies:
        return Declined("not-copies", f"`{ASYNC_TWO}` is for loops with asynchronous copies", f"`{TWO}` is for others")
    return None


def _ways(body: Body, clusters: int, stagger: int, spare: bool) -> list[Arrangement | Declined]:
    """All ways to arrange the loop that differ."""
    found: dict[object, Arrangement | Declined] = {}
    for each in arrange_all(body, clusters, stagger=stagger, spare=spare):
        found.setdefault(each.phases if isinstance(each, Arrangement) else each, each)
    return list(found.values())


def _drafted(arrangement: Arrangement | Declined, strategy: str, stagger: int) -> Candidate | Declined:
    """With barriers before and behind the loop where they keep waits out of it, and priorities where they pay."""
    if isinstance(arrangement, Declined):
        return arrangement
    kernel, target = reordered(arrangement), arrangement.body.target
    made = partial(draft_clusters, arrangement, Session(kernel.name, target, kernel), strategy, stagger)
    best, outside = made(), {"meet": False}
    if arrangement.body.of_role("copy"):
        outside["part"] = False
    for name in outside if isinstance(best, Candidate) else ():
        other = made(**{**outside, name: True})
        if isinstance(other, Candidate) and _rank(other) < _rank(best):
            best, outside[name] = other, True
    if isinstance(best, Candidate) and not pays_priority(best, target):
        return made(**outside, prefer=False)
    return best


def _rank(found: Candidate | Declined) -> tuple[bool, float, int]:
    """What is better: no barrier in the loop beside those of its clusters, for it would shift the turns of the halves;
    then fewer cycles in an iteration; then fewer barriers in the kernel.
    """
    if isinstance(found, Declined) or found.price is None or found.arrangement is None:
        return True, float("inf"), 0
    is_odd = found.price.barriers != len(found.arrangement.phases)
    return is_odd, round(found.price.cycles, 3), tally(found.graph).barriers
