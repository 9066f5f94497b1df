"""What a well-formed graph is; run between passes in tests, and on graphs that come from files.

scopes      the outermost graph borrows nothing, so every value that a closure borrows is there when it is made;
            no value depends on itself
types       every application has the type that its operation infers; calls agree with what they call
parameters  belong to their graph; weights are the last parameters of the outermost graph, and only there
attributes  can be hashed
effects     of two assignments to a weight in a graph one follows the other
"""

from typing import Any

from ..errors import EngineError
from ..primitive import Primitive
from .control import Control
from .graph import Graph
from .node import Apply, Constant, Node, Parameter
from .printer import type_text
from .types import UNKNOWN, Abstract, FunctionType, TupleType, type_of
from .visit import Scopes

__all__ = ["VerifyError", "verify"]


class VerifyError(EngineError, ValueError):
    """A graph that is not well formed: a pass, or the file it came from, is wrong."""


def verify(graph: Graph) -> Graph:
    """The graph itself, if it and all graphs that it uses are well formed.

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
        if isinstance(inner.result, Constant):
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
        if isinstance(x, Constant):
            _constant(graph, x)
    try:
        hash(tuple(node.attributes.values()))
    except TypeError:
        _fail(graph, node, f"has attributes that cannot be hashed: {node.attributes}; use tuples for lists and dicts")
    function = node.function
    if isinstance(function, Constant) and isinstance(function.value, Primitive | Control):
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
    if isinstance(node.function, Constant):
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


def _constant(graph: Graph, constant: Constant) -> None:
    value = constant.value
    if isinstance(value, Graph):
        if constant.type != value.type:
            _fail(graph, constant, f"is taken for a {type_text(constant.type)} but is a {type_text(value.type)}")
    elif isinstance(value, Primitive | Control):
        _fail(graph, constant, "is an operation used as a value; wrap it in a graph")
    elif value is not None and constant.type != type_of(value):
        _fail(graph, constant, f"has type {type_text(constant.type)} but is a {type_text(type_of(value))}")


def _assignments(graph: Graph, nodes: tuple[Apply, ...]) -> None:
    """Nothing; every assignment to a weight comes after the one before it in the order, by its inputs."""
    last: dict[Node, Apply] = {}
    for node in nodes:
        if node.applies("assign"):
            target = node.arguments[0]
            if not isinstance(target, Parameter) or target.weight is None:
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
