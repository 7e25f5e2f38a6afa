"""What must hold for a node to be reached: asked from one node that all ways pass to the next."""

from __future__ import annotations

import tidegate as tg
from oracles.programs import nests
from tidegate.footprint.resolve import find_footprints
from tidegate.graph.flow import flow_of
from tidegate.targets import load_target
from tidegate.verify.paths import Paths
from tidegate.verify.reach import Reach
from tidegate.verify.verify import verify

GUARDED = """
target gfx942
kernel @guarded(%n: index, %flag: flag) sizes(N = 4) waves 2 {
  %a = alloc : lds<2x4xi32>
  %t = splat wave : tile<1x4xi32>
  iterate %k in 0 .. N {
    conditional %k > OUTER {
      iterate %j in 0 .. N {
        conditional %k < INNER {
          local_write %t, %a[0, 0]
        }
      }
    }
  }
}
"""


def test_steps_grow_with_the_points_and_not_with_their_square() -> None:
    """Each search for what a node asks went back to the beginning: 191,754 steps in a nest of 1,427 points."""
    graph = nests.nest_graph(500)
    found = verify(graph, load_target("gfx942"))
    assert found.suspects
    assert not found.undecided
    assert found.visits < 10 * len(graph.points)


def test_what_nodes_above_ask_is_joined() -> None:
    for outer, inner, reached in ((2, 2, False), (1, 3, True)):
        (kernel,) = tg.parse(GUARDED.replace("OUTER", str(outer)).replace("INNER", str(inner))).kernels
        assert bool(tg.prove(kernel).suspects) is reached


def test_a_node_above_lies_in_no_loop_that_ends_before() -> None:
    flow = flow_of(nests.nest_graph(300))
    paths = Paths(flow, find_footprints(flow))
    reach = Reach(paths)
    above = {node: reach.passed_before(node) for node in paths.footprints.accesses}
    assert any(each >= 0 for each in above.values())
    for node, each in above.items():
        assert each < 0 or paths.around[each] == paths.around[node][: len(paths.around[each])]
        assert each < 0 or reach.order.dominates(each, node)
