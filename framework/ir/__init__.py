"""The functional IR: a graph is a function; nodes are parameters, constants, applications; graphs are values."""

from .equal import equal
from .graph import Graph
from .node import Apply, Constant, Node, Parameter, Where
from .types import Abstract, FunctionType, OpaqueType, TupleType, type_of

__all__ = [
    "Abstract",
    "Apply",
    "Constant",
    "FunctionType",
    "Graph",
    "Node",
    "OpaqueType",
    "Parameter",
    "TupleType",
    "Where",
    "equal",
    "type_of",
]
