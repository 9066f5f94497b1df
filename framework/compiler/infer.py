"""Types found anew: what every node computes, from the types of the parameters of the outermost graph.

Graphs have one type each: every call of a graph must bring the same types. A recursion's result is not known when its
body is first walked over; the walk is repeated until nothing changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import EngineError, ShapeError
from ..ir import Apply, ConstantNode, Graph, Node, TupleType
from ..ir.clone import clone
from ..ir.control_ops import Control
from ..ir.ir_types import UNKNOWN, Abstract, FunctionType
from ..ir.printer import type_text
from ..ir.visit import Scopes
from ..primitive import Primitive

__all__ = ["infer"]


@dataclass(frozen=True, slots=True)
class _Functions(FunctionType):
    """A function value while types are being found: the graphs that it can be."""

    graphs: frozenset[Graph] = frozenset()


def infer(graph: Graph, types: Sequence[Abstract] | None = None) -> Graph:
    """Return a copy of the graph in which every type follows from those of its parameters.

    Args:
        graph: Complete.
        types: New types of its parameters; by default those that they have.

    Raises:
        ShapeError: A loop or a recursion changes the type of a variable.
        EngineError: An operation cannot take what it would get; with its place in the source.
    """
    copy = clone(graph)
    if types is not None:
        for parameter, type in zip(copy.parameters, types, strict=True):
            parameter.type = type
    _Inference(copy).run()
    return copy


class _Inference:
    """Types of the nodes of one program while they are being found."""

    def __init__(self, root: Graph) -> None:
        self._root = root
        self._scopes = Scopes(root)
        self._found: dict[Node, Abstract] = {p: p.type for p in root.parameters}
        self._changed = True

    def run(self) -> None:
        """Give every node its type."""
        while self._changed:
            self._changed = False
            for graph in self._scopes.graphs:
                for node in self._scopes.order(graph):
                    self._set(node, self._computed(node, graph), node)
        self._write()

    def _type(self, node: Node) -> Abstract:
        if isinstance(node, ConstantNode):
            return _Functions((), UNKNOWN, frozenset({node.value})) if isinstance(node.value, Graph) else node.type
        return self._found.get(node, UNKNOWN)

    def _set(self, node: Node, type: Abstract, user: Apply) -> None:
        joined = self._join(self._found.get(node, UNKNOWN), type, node, user)
        if joined != self._found.get(node, UNKNOWN):
            self._found[node] = joined
            self._changed = True

    def _join(self, a: Abstract, b: Abstract, node: Node, user: Apply) -> Abstract:
        if a in (UNKNOWN, b) or b == UNKNOWN:
            return b if a == UNKNOWN else a
        if isinstance(a, _Functions) and isinstance(b, _Functions):
            return _Functions((), UNKNOWN, a.graphs | b.graphs)
        if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.elements) == len(b.elements):
            both = zip(a.elements, b.elements, strict=True)
            return TupleType(tuple(self._join(x, y, node, user) for x, y in both))
        name = getattr(node, "name", "") or "a result"
        home = node.graph.name if node.graph is not None else ""
        raise ShapeError(
            f"'{name}' of '{home}' is {type_text(a)} at first and {type_text(b)} later ({user.where}); a variable of a "
            f"loop, a recursion or both branches of a choice must keep its type: pad it, or cast it before"
        )

    def _computed(self, node: Apply, graph: Graph) -> Abstract:
        function = node.function
        given = [self._type(x) for x in node.arguments]
        if not (isinstance(function, ConstantNode) and isinstance(function.value, Primitive | Control)):
            return self._called(node, given)
        if function.value.name == "switch":
            return self._join(given[1], given[2], node, node)
        if any(_is_unknown(type) for type in given) and function.value.name != "make_tuple":
            return UNKNOWN
        try:
            found: Any = function.value.infer(*given, **node.attributes)
        except EngineError as error:
            types = ", ".join(type_text(type) for type in given)
            error.args = (f"'{function.value.name}' in '{graph.name}' cannot take {types} ({node.where}): {error}",)
            raise
        return TupleType(found) if isinstance(found, tuple) else found

    def _called(self, node: Apply, given: list[Abstract]) -> Abstract:
        function = self._type(node.function)
        if not isinstance(function, _Functions):
            return node.type if isinstance(function, FunctionType) else UNKNOWN
        result: Abstract = UNKNOWN
        for graph in sorted(function.graphs, key=self._scopes.graphs.index):
            if len(given) != len(graph.parameters):
                raise EngineError(
                    f"'{graph.name}' expects {len(graph.parameters)} arguments, a call passes {len(given)} "
                    f"({node.where})"
                )
            for parameter, type in zip(graph.parameters, given, strict=True):
                self._set(parameter, type, node)
            result = self._join(result, self._type(graph.result), node, node)
        return result

    # The end: types are written into the nodes.

    def _write(self) -> None:
        for graph in self._scopes.graphs:
            for parameter in graph.parameters:
                parameter.type = self._final(self._found.get(parameter, parameter.type), frozenset())
            for node in self._scopes.order(graph):
                node.type = self._final(self._found.get(node, node.type), frozenset())
        for graph in self._scopes.graphs:
            for node in self._scopes.order(graph):
                node.inputs = [_retyped(x) for x in node.inputs]
            graph.output = _retyped(graph.result)

    def _final(self, type: Abstract, inside: frozenset[Graph]) -> Abstract:
        """Return the type with function types in the place of sets of graphs."""
        if isinstance(type, TupleType):
            return TupleType(tuple(self._final(part, inside) for part in type.elements))
        if not isinstance(type, _Functions):
            return type
        graph = min(type.graphs, key=self._scopes.graphs.index)
        if graph in inside:
            raise EngineError(f"the type of '{graph.name}' contains itself: a function cannot be its own argument")
        inside |= {graph}
        arguments = tuple(self._final(self._found.get(p, p.type), inside) for p in graph.parameters)
        return FunctionType(arguments, self._final(self._type(graph.result), inside))


def _is_unknown(type: Abstract) -> bool:
    if isinstance(type, TupleType):
        return any(_is_unknown(part) for part in type.elements)
    return type == UNKNOWN


def _retyped(node: Node) -> Node:
    return (
        ConstantNode(node.value, node.value.type)
        if isinstance(node, ConstantNode) and isinstance(node.value, Graph)
        else node
    )
