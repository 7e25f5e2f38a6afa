"""Targets: what differs between GPUs, as data.

Needs   the TOML files beside this one, or a file of the user
Gives   `Target` values, and text and JSON made from them
Keeps   every fact cites its source; what a file does not state is taken as slow and safe; no code names a GPU
Cost    a target is read once, when it is first asked for

`schema` lists every fact, `parse` reads a file, `library` finds it, `show` prints it, `pages`
writes its page of the documentation.
"""

from tidegate.targets.library import TargetRow, default_target, known_targets, list_targets, load_target, resolve
from tidegate.targets.model import (
    BarrierFacts,
    ByName,
    Cost,
    CounterFacts,
    FenceFacts,
    LdsFacts,
    MmaFacts,
    Note,
    OperationFacts,
    Target,
    WaveFacts,
)
from tidegate.targets.pages import is_unchecked, target_to_page, targets_to_table
from tidegate.targets.parse import empty_target, parse_target
from tidegate.targets.schema import CODES, DTYPES, FACTS, OPERATIONS
from tidegate.targets.show import schema_to_markdown, show_target, target_to_json

__all__ = [
    "CODES",
    "DTYPES",
    "FACTS",
    "OPERATIONS",
    "BarrierFacts",
    "ByName",
    "Cost",
    "CounterFacts",
    "FenceFacts",
    "LdsFacts",
    "MmaFacts",
    "Note",
    "OperationFacts",
    "Target",
    "TargetRow",
    "WaveFacts",
    "default_target",
    "empty_target",
    "is_unchecked",
    "known_targets",
    "list_targets",
    "load_target",
    "parse_target",
    "resolve",
    "schema_to_markdown",
    "show_target",
    "target_to_json",
    "target_to_page",
    "targets_to_table",
]
