"""The reference evaluator of graphs, plain and slow: one node after the other, on arrays; backends answer to it."""

from typing import Any

import numpy as np

from ..ir import Apply, Constant, Graph, Node
from ..ir.control import Control
from ..primitive import Primitive
from ..tensor import Tensor

__all__ = ["Closure", "evaluate"]


class Closure:
    """A graph with the values of its free variables."""

    __slots__ = ("graph", "values")

    def __init__(self, graph: Graph, values: dict[Node, Any]) -> None:
        self.graph, self.values = graph, values


def evaluate(graph: Graph, arguments: list[Any]) -> Any:
    """What the graph returns for arrays, one for each of its parameters (those of weights included)."""
    return _call(Closure(graph, {}), arguments)


def _call(closure: Closure, arguments: list[Any]) -> Any:
    values = dict(closure.values)
    values.update(zip(closure.graph.parameters, arguments, strict=True))
    return _value(closure.graph.result, closure.graph, values)


def _value(node: Node, graph: Graph, values: dict[Node, Any]) -> Any:
    if node in values:
        return values[node]
    if isinstance(node, Constant):
        return _constant(node.value, values)
    if not isinstance(node, Apply):
        raise TypeError(f"parameter {node!r} of another graph has no value in '{graph.name}'")
    inputs = [_value(x, graph, values) for x in node.inputs]
    values[node] = _apply(inputs[0], inputs[1:], node.attributes)
    return values[node]


def _constant(value: Any, values: dict[Node, Any]) -> Any:
    if isinstance(value, Graph):
        return Closure(value, values)
    return value._data if isinstance(value, Tensor) else value


def _apply(function: Any, arguments: list[Any], attributes: dict[str, Any]) -> Any:
    if isinstance(function, Closure):
        return _call(function, arguments)
    if isinstance(function, Control):
        return function.evaluate(*arguments, **attributes)
    assert isinstance(function, Primitive)
    with np.errstate(all="ignore"):
        result = function.evaluate(*arguments, **attributes)
    return result if isinstance(result, tuple | np.ndarray) else np.asarray(result)
