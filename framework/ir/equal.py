"""Whether two graphs are the same function text for text, whatever their nodes and parameters are called."""

from typing import Any

import numpy as np

from ..tensor import Tensor
from .graph import Graph
from .node import Apply, Constant, Node, Parameter

__all__ = ["equal"]


def equal(a: Graph, b: Graph) -> bool:
    """Whether the graphs, and those they use, differ in nothing but names, places in the source and dead nodes."""
    return _Comparison().graphs(a, b)


class _Comparison:
    """What has been taken for equal so far; it is, if everything it leads to is."""

    def __init__(self) -> None:
        self._twin: dict[Node | Graph, Node | Graph] = {}
        self._taken: set[Node | Graph] = set()
        self._open: list[tuple[Node, Node]] = []

    def graphs(self, a: Graph, b: Graph) -> bool:
        """Whether the two are equal."""
        if not self._headers(a, b):
            return False
        while self._open:
            if not self._nodes(*self._open.pop()):
                return False
        return True

    def _match(self, a: Node | Graph, b: Node | Graph) -> bool | None:
        """Whether the two have been matched: to each other (True) or to others (False); None if they are new."""
        if a in self._twin or b in self._taken:
            return self._twin.get(a) is b
        self._twin[a] = b
        self._taken.add(b)
        return None

    def _headers(self, a: Graph, b: Graph) -> bool:
        known = self._match(a, b)
        if known is not None:
            return known
        if len(a.parameters) != len(b.parameters):
            return False
        for x, y in zip(a.parameters, b.parameters, strict=True):
            if self._match(x, y) is False or x.type != y.type or x.weight is not y.weight:
                return False
        self._open.append((a.result, b.result))
        return True

    def _nodes(self, a: Node, b: Node) -> bool:
        if isinstance(a, Constant) or isinstance(b, Constant):
            return isinstance(a, Constant) and isinstance(b, Constant) and self._constants(a, b)
        known = self._match(a, b)
        if known is not None or isinstance(a, Parameter) or isinstance(b, Parameter):
            return bool(known)  # parameters of the graphs compared are matched already
        assert isinstance(a, Apply)
        assert isinstance(b, Apply)
        if a.type != b.type or len(a.inputs) != len(b.inputs) or not same_value(a.attributes, b.attributes):
            return False
        if self._twin.get(a.graph) is not b.graph:  # type: ignore[arg-type] # applications have a graph
            return False
        self._open += zip(a.inputs, b.inputs, strict=True)
        return True

    def _constants(self, a: Constant, b: Constant) -> bool:
        if isinstance(a.value, Graph) and isinstance(b.value, Graph):
            return self._headers(a.value, b.value)
        return a.type == b.type and same_value(a.value, b.value)


def same_value(a: Any, b: Any) -> bool:
    """Whether two constants or attributes are equal: arrays bit by bit, a NaN equal to itself, 1 not to True or 1.0."""
    if isinstance(a, Tensor | np.ndarray | np.generic):
        return isinstance(b, Tensor | np.ndarray | np.generic) and _bits(a) == _bits(b)
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_value(a[key], b[key]) for key in a)
    return bool(repr(a) == repr(b) if isinstance(a, float | complex) else a == b)


def _bits(x: Any) -> tuple[Any, ...]:
    array = np.asarray(x._data if isinstance(x, Tensor) else x)
    return array.shape, array.dtype, array.tobytes()
