"""The functional IR: a graph is a function; nodes are parameters, constants, applications; graphs are values."""

from .ir_graph import Apply, Constant, Graph, Node, Parameter, Where
from .ir_types import Abstract, FunctionType, OpaqueType, TupleType, type_of
from .verify import equal

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
