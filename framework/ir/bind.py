"""A graph for all lengths of its axes becomes one for certain lengths."""

from collections.abc import Mapping
from typing import Any

from ..primitive import Primitive
from ..shape import Spec
from ..symbolic import Length, substitute
from .clone import clone
from .control import Control
from .graph import Graph
from .node import Constant, Node
from .types import FunctionType, TupleType
from .visit import Scopes

__all__ = ["bind"]


def bind(graph: Graph, lengths: Mapping[str, Length]) -> Graph:
    """A copy of the graph for certain lengths, which stand for their names in types, attributes and constants."""
    copy = clone(graph)
    scopes = Scopes(copy)
    for inner in scopes.graphs:
        for parameter in inner.parameters:
            parameter.type = _bound(parameter.type, lengths)
        for node in scopes.order(inner):
            node.type = _bound(node.type, lengths)
            node.attributes = {key: _bound(value, lengths) for key, value in node.attributes.items()}
            node.inputs = [_bound_constant(x, lengths) for x in node.inputs]
        inner.output = _bound_constant(inner.result, lengths)
    return copy


def _bound(value: Any, lengths: Mapping[str, Length]) -> Any:
    """A type or an attribute with lengths in the place of names."""
    if isinstance(value, Spec):
        return Spec(substitute(value.shape, lengths), value.dtype, weak=value.weak)
    if isinstance(value, TupleType):
        return TupleType(tuple(_bound(part, lengths) for part in value.elements))
    if isinstance(value, FunctionType):
        arguments = tuple(_bound(part, lengths) for part in value.arguments)
        return FunctionType(arguments, _bound(value.result, lengths))
    if isinstance(value, tuple):
        parts = [_bound(part, lengths) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return substitute(value, lengths)


def _bound_constant(node: Node, lengths: Mapping[str, Length]) -> Node:
    if not isinstance(node, Constant) or isinstance(node.value, Primitive | Control):
        return node
    return Constant(
        node.value if isinstance(node.value, Graph) else _bound(node.value, lengths), _bound(node.type, lengths)
    )
