"""Copies of graphs: of a whole program, or of a body into the graph that called it."""

from collections.abc import Mapping, Sequence

from .graph import Graph
from .node import Apply, Constant, Node
from .visit import Scopes

__all__ = ["clone", "inline"]


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
        """What stands for a node; itself where it is shared."""
        if isinstance(node, Constant) and node.value.__class__ is Graph and node.value in self._graphs:
            return Constant(self._graphs[node.value], node.type)
        return self._nodes.get(node, node)

    def headers(self, graphs: Sequence[Graph]) -> None:
        """Nothing; these graphs get empty copies with parameters."""
        for graph in graphs:
            new = self._graphs[graph] = Graph(graph.name)
            for parameter in graph.parameters:
                copy = new.add_parameter(parameter.type, parameter.name, parameter.weight)
                copy.where = parameter.where
                self._nodes[parameter] = copy

    def bodies(self, graphs: Sequence[Graph], into: Graph | None = None) -> None:
        """Nothing; the nodes of these graphs are copied, into their copies or all into one graph."""
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
        """The copy of a graph."""
        return self._graphs[graph]

    def affected(self, inlined: Graph) -> list[Graph]:
        """The graphs that borrow, from a graph or each other, nodes that something else stands for now."""
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
    """A copy of the graph and of every graph that it uses, sharing no application with the original.

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
    """The node of `into` that has the value of `graph` applied to the arguments, its body copied there.

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
