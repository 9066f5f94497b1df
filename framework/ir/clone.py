"""Copies of graphs: of a whole program, of a body into the graph that called it, and for certain lengths of axes."""

from collections.abc import Callable, Mapping, Sequence

from ..primitive import Primitive
from ..specs import Spec
from ..symbolic import Length, substitute
from .control_ops import Control
from .ir_graph import Apply, ConstantNode, Graph, Node
from .ir_types import Abstract, FunctionType, TupleType
from .visit import Scopes


class _Copy:
    """Old nodes and graphs and the new ones that stand for them.

    Args:
        scopes: Of a graph from which all the others can be reached.
        nodes: What stands for nodes that are not copied: arguments for parameters, values for free variables.
    """

    def __init__(self, scopes: Scopes, nodes: Mapping[Node, Node]) -> None:
        self._scopes = scopes
        self._graphs: dict[Graph, Graph] = {}
        self._nodes: dict[Node, Node] = dict(nodes)

    def __call__(self, node: Node) -> Node:
        """Return what stands for a node; itself where it is shared."""
        if isinstance(node, ConstantNode) and node.value.__class__ is Graph and node.value in self._graphs:
            return ConstantNode(self._graphs[node.value], node.type)
        return self._nodes.get(node, node)

    def headers(self, graphs: Sequence[Graph]) -> None:
        """Make empty copies of these graphs, with parameters."""
        for graph in graphs:
            new = self._graphs[graph] = Graph(graph.name)
            for parameter in graph.parameters:
                copy = new.add_parameter(parameter.type, parameter.name, parameter.weight)
                copy.where = parameter.where
                self._nodes[parameter] = copy

    def bodies(self, graphs: Sequence[Graph], into: Graph | None = None) -> None:
        """Copy the nodes of these graphs, into their copies or all into one graph."""
        made: list[tuple[Apply, Apply]] = []
        for graph in graphs:
            home = into or self._graphs[graph]
            for node in self._scopes.order(graph):
                new = Apply(home, [], node.type, node.attributes, node.where)
                self._nodes[node] = new
                made.append((node, new))
        for node, new in made:
            new.inputs = [self(x) for x in node.inputs]
        if into is None:
            for graph in graphs:
                self._graphs[graph].output = self(graph.result)

    def copy_of(self, graph: Graph) -> Graph:
        """Return the copy of a graph."""
        return self._graphs[graph]

    def affected(self, inlined: Graph) -> list[Graph]:
        """Return the graphs that borrow, from a graph or each other, nodes that something else stands for now."""
        homes, found = {inlined}, [inlined]
        while found:
            found = [
                graph
                for graph in self._scopes.graphs
                if graph not in homes
                and any(free in self._nodes or free.graph in homes for free in self._scopes.free[graph])
            ]
            homes.update(found)
        return [graph for graph in self._scopes.graphs if graph in homes and graph is not inlined]


def clone(graph: Graph, substitution: Mapping[Node, Node] | None = None) -> Graph:
    """Return a copy of the graph and of every graph that it uses, sharing no application with the original.

    Args:
        graph: What is copied.
        substitution: For free variables of the graph, what the copy uses instead.
    """
    scopes = Scopes(graph)
    copy = _Copy(scopes, substitution or {})
    copy.headers(scopes.graphs)
    copy.bodies(scopes.graphs)
    return copy.copy_of(graph)


def inline(graph: Graph, arguments: Sequence[Node], into: Graph) -> Node:
    """Return the node of `into` that has the value of `graph` applied to the arguments, its body copied there.

    Closures that borrow from the body are copied with it; graphs that do not are shared. `into` must see what the graph
    borrows.

    Raises:
        ValueError: The number of arguments is wrong.
    """
    scopes = Scopes(graph)
    copy = _Copy(scopes, dict(zip(graph.parameters, arguments, strict=True)))
    inner = copy.affected(graph)
    copy.headers(inner)
    copy.bodies([graph], into)
    copy.bodies(inner)
    return copy(graph.result)


def bind(graph: Graph, lengths: Mapping[str, Length]) -> Graph:
    """Copy the graph for certain lengths, which replace their names in types, attributes and constants."""
    copy = clone(graph)
    scopes = Scopes(copy)
    for inner in scopes.graphs:
        for parameter in inner.parameters:
            parameter.type = _bound_type(parameter.type, lengths)
        for node in scopes.order(inner):
            node.type = _bound_type(node.type, lengths)
            node.attributes = {key: _bound(value, lengths) for key, value in node.attributes.items()}
            node.inputs = [_bound_constant(x, lengths) for x in node.inputs]
        inner.output = _bound_constant(inner.result, lengths)
    return copy


def _bound_type(type: Abstract, lengths: Mapping[str, Length]) -> Abstract:
    """Return a type with lengths in the place of names."""
    if isinstance(type, Spec):
        return Spec(substitute(type.shape, lengths), type.dtype, weak=type.weak)
    if isinstance(type, TupleType):
        return TupleType(tuple(_bound_type(part, lengths) for part in type.elements))
    if isinstance(type, FunctionType):
        arguments = tuple(_bound_type(part, lengths) for part in type.arguments)
        return FunctionType(arguments, _bound_type(type.result, lengths))
    return type


def _bound(value: object, lengths: Mapping[str, Length]) -> object:
    """Return an attribute or constant with lengths in the place of names."""
    if isinstance(value, Abstract):
        return _bound_type(value, lengths)
    if isinstance(value, tuple):
        parts = [_bound(part, lengths) for part in value]
        make: Callable[..., object] = type(value)
        return make(*parts) if hasattr(value, "_fields") else tuple(parts)
    return substitute(value, lengths)


def _bound_constant(node: Node, lengths: Mapping[str, Length]) -> Node:
    if not isinstance(node, ConstantNode) or isinstance(node.value, Primitive | Control):
        return node
    return ConstantNode(
        node.value if isinstance(node.value, Graph) else _bound(node.value, lengths), _bound_type(node.type, lengths)
    )
