"""Whether a graph is well formed, and whether two graphs are equal; for tests of passes, and for graphs from files.

scopes      the outermost graph borrows nothing, so every value that a closure borrows is there when it is made;
            no value depends on itself
types       every application has the type that its operation infers; calls agree with what they call
parameters  belong to their graph; weights are the last parameters of the outermost graph, and only there
attributes  can be hashed
effects     of two assignments to a weight in a graph one follows the other
"""

from typing import Any

import numpy as np

from ..errors import EngineError
from ..primitive import Primitive
from ..tensor import Array, Tensor
from .control_ops import Control
from .ir_graph import Apply, ConstantNode, Graph, Node, ParameterNode
from .ir_types import UNKNOWN, Abstract, FunctionType, TupleType, type_of
from .printer import type_text
from .visit import Scopes


class VerifyError(EngineError, ValueError):
    """A graph that is not well formed: a pass, or the file it came from, is wrong."""


def verify(graph: Graph) -> Graph:
    """Return the graph itself, if it and all graphs that it uses are well formed.

    Raises:
        VerifyError: With the graph, the node, its place in the source, and what is wrong.
    """
    scopes = Scopes(graph)
    for node in scopes.free[graph]:
        home = node.graph.name if node.graph is not None else "?"
        _fail(graph, node, f"belongs to graph '{home}' but is used where that is not running")
    for inner in scopes.graphs:
        _parameters(inner, inner is graph)
        nodes = scopes.order(inner)
        for node in nodes:
            _application(inner, node)
        if isinstance(inner.result, ConstantNode):
            _constant(inner, inner.result)
        _assignments(inner, nodes)
    return graph


def _fail(graph: Graph, node: Node, what: str) -> None:
    where = f" ({node.where})" if str(node.where) else ""
    raise VerifyError(f"graph '{graph.name}', {node!r}{where}: {what}")


def _parameters(graph: Graph, is_outermost: bool) -> None:
    weighted = False
    for parameter in graph.parameters:
        if parameter.graph is not graph:
            _fail(graph, parameter, "is a parameter of this graph but does not belong to it")
        if parameter.weight is not None and not is_outermost:
            _fail(graph, parameter, "carries a weight, which only parameters of the outermost graph do")
        if weighted and parameter.weight is None:
            _fail(graph, parameter, "stands behind a weight; weights come last")
        weighted = parameter.weight is not None


def _application(graph: Graph, node: Apply) -> None:
    for x in node.arguments:
        if isinstance(x, ConstantNode):
            _constant(graph, x)
    try:
        hash(tuple(node.attributes.values()))
    except TypeError:
        _fail(graph, node, f"has attributes that cannot be hashed: {node.attributes}; use tuples for lists and dicts")
    function = node.function
    if isinstance(function, ConstantNode) and isinstance(function.value, Primitive | Control):
        expected = _inferred(graph, node, function.value)
    else:
        expected = _called(graph, node)
    if expected != node.type:
        _fail(graph, node, f"has type {type_text(node.type)} but computes {type_text(expected)}")


def _inferred(graph: Graph, node: Apply, operation: Primitive | Control) -> Abstract:
    try:
        found: Any = operation.infer(*(x.type for x in node.arguments), **node.attributes)
    except (EngineError, TypeError, ValueError, AttributeError) as error:
        types = ", ".join(type_text(x.type) for x in node.arguments)
        raise VerifyError(f"graph '{graph.name}', {node!r} ({node.where}): cannot take {types}: {error}") from error
    return TupleType(found) if isinstance(found, tuple) else found


def _called(graph: Graph, node: Apply) -> Abstract:
    type = node.function.type
    if isinstance(node.function, ConstantNode):
        _constant(graph, node.function)
    if not isinstance(type, FunctionType):
        _fail(graph, node, f"applies a {type_text(type)}, which is no function")
        return UNKNOWN
    given = tuple(x.type for x in node.arguments)
    if given != type.arguments:
        wanted, got = (", ".join(type_text(part) for part in parts) for parts in (type.arguments, given))
        _fail(graph, node, f"calls a function of ({wanted}) with ({got})")
    if type.result == UNKNOWN:
        _fail(graph, node, "calls a function whose result type was never found out; run compiler.infer")
    return type.result


def _constant(graph: Graph, constant: ConstantNode) -> None:
    value = constant.value
    if isinstance(value, Graph):
        if constant.type != value.type:
            _fail(graph, constant, f"is taken for a {type_text(constant.type)} but is a {type_text(value.type)}")
    elif isinstance(value, Primitive | Control):
        _fail(graph, constant, "is an operation used as a value; wrap it in a graph")
    elif value is not None and constant.type != type_of(value):
        _fail(graph, constant, f"has type {type_text(constant.type)} but is a {type_text(type_of(value))}")


def _assignments(graph: Graph, nodes: tuple[Apply, ...]) -> None:
    """Check that every assignment to a weight comes after the one before it in the order, by its inputs."""
    last: dict[Node, Apply] = {}
    for node in nodes:
        if node.applies("assign"):
            target = node.arguments[0]
            if not isinstance(target, ParameterNode) or target.weight is None:
                _fail(graph, node, f"assigns to {target!r}, which is no weight")
            if target in last and not _follows(node, last[target]):
                _fail(graph, node, "assigns to a weight that is assigned before, and nothing says which comes first")
            last[target] = node


def _follows(node: Apply, earlier: Apply) -> bool:
    seen: set[Node] = set()
    stack: list[Node] = [node]
    while stack:
        x = stack.pop()
        if x is earlier:
            return True
        if x not in seen and isinstance(x, Apply):
            seen.add(x)
            stack += x.inputs
    return False


def equal(a: Graph, b: Graph) -> bool:
    """Return whether the graphs, and those they use, differ only in names, places in the source and dead nodes."""
    return _Comparison().graphs(a, b)


class _Comparison:
    """What has been taken for equal so far; it is, if everything it leads to is."""

    def __init__(self) -> None:
        self._twin: dict[Node | Graph, Node | Graph] = {}
        self._taken: set[Node | Graph] = set()
        self._open: list[tuple[Node, Node]] = []

    def graphs(self, a: Graph, b: Graph) -> bool:
        """Return whether the two are equal."""
        if not self._headers(a, b):
            return False
        while self._open:
            if not self._nodes(*self._open.pop()):
                return False
        return True

    def _match(self, a: Node | Graph, b: Node | Graph) -> bool | None:
        """Return whether the two have been matched: to each other (True) or to others (False); None if they are new."""
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
        if isinstance(a, ConstantNode) or isinstance(b, ConstantNode):
            return isinstance(a, ConstantNode) and isinstance(b, ConstantNode) and self._constants(a, b)
        known = self._match(a, b)
        if known is not None or isinstance(a, ParameterNode) or isinstance(b, ParameterNode):
            return bool(known)  # parameters of the graphs compared are matched already
        assert isinstance(a, Apply)
        assert isinstance(b, Apply)
        if a.type != b.type or len(a.inputs) != len(b.inputs) or not same_value(a.attributes, b.attributes):
            return False
        if self._twin.get(a.graph) is not b.graph:  # type: ignore[arg-type] # applications have a graph
            return False
        self._open += zip(a.inputs, b.inputs, strict=True)
        return True

    def _constants(self, a: ConstantNode, b: ConstantNode) -> bool:
        if isinstance(a.value, Graph) and isinstance(b.value, Graph):
            return self._headers(a.value, b.value)
        return a.type == b.type and same_value(a.value, b.value)


def same_value(a: Any, b: Any) -> bool:  # of one type, once that is known
    """Return whether two constants or attributes are equal: arrays bit by bit, a NaN equal to itself, 1 not to True or
    1.0."""
    if isinstance(a, Tensor | np.ndarray | np.generic):
        return isinstance(b, Tensor | np.ndarray | np.generic) and _bits(a) == _bits(b)
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_value(a[key], b[key]) for key in a)
    return bool(repr(a) == repr(b) if isinstance(a, float | complex) else a == b)


def _bits(x: Tensor | Array | np.generic) -> tuple[object, ...]:
    array = np.asarray(x._data if isinstance(x, Tensor) else x)
    return array.shape, array.dtype, array.tobytes()
