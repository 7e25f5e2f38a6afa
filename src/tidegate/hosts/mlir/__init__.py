"""MLIR in its generic form: what any compiler on MLIR can print, and what can be read without that compiler."""

from tidegate.hosts.mlir.model import Block, Module, Operation, Region
from tidegate.hosts.mlir.parse import is_generic, parse_generic, refuse_deep, without_comments

__all__ = ["Block", "Module", "Operation", "Region", "is_generic", "parse_generic", "refuse_deep", "without_comments"]
