"""The functional IR: a graph is a function; nodes are parameters, constants, applications; graphs are values."""

import warnings

from .ir_graph import Apply, ConstantNode, Graph, Node, ParameterNode, Where
from .ir_types import Abstract, FunctionType, OpaqueType, TupleType, type_of
from .verify import equal

__all__ = [
    "Abstract",
    "Apply",
    "ConstantNode",
    "FunctionType",
    "Graph",
    "Node",
    "OpaqueType",
    "ParameterNode",
    "TupleType",
    "Where",
    "equal",
    "type_of",
]

_RENAMED = {"Constant": ConstantNode, "Parameter": ParameterNode}


def __getattr__(name: str) -> object:
    """Return a renamed class under its old name, for one release more."""
    if name in _RENAMED:
        new = _RENAMED[name]
        warnings.warn(f"framework.ir.{name} is now {new.__name__}; import that name", DeprecationWarning, 2)
        return new
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
