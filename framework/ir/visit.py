"""Walks over graphs: which graphs a program consists of, what each borrows from those around it, in what order it runs.

Nothing here recurses in Python: a graph may be a chain of a hundred thousand nodes.
"""

from collections.abc import Iterator

from ..errors import EngineError
from .ir_graph import Apply, ConstantNode, Graph, Node

__all__ = ["Scopes", "free_variables", "order", "reachable", "users"]


class Scopes:
    """Who owns and who borrows which nodes, in a graph and all graphs that can be reached from it.

    Attributes:
        graphs: The graph, then all that it uses as values, directly or through others, as they are met.
        free: For each graph its free variables: nodes of other graphs that it uses, or that a graph it makes a closure
            of uses. To make a closure is to have their values at hand.
    """

    def __init__(self, root: Graph) -> None:
        self.graphs: list[Graph] = []
        self.free: dict[Graph, dict[Node, None]] = {}
        self._seen: dict[Graph, set[Node]] = {}
        self._holders: dict[Graph, dict[Graph, None]] = {}
        self._orders: dict[Graph, tuple[Apply, ...]] = {}
        self._walk(self._enter(root))

    def _enter(self, graph: Graph) -> list[tuple[Graph, Node]]:
        self.graphs.append(graph)
        self.free[graph], self._seen[graph], self._holders[graph] = {}, set(), {}
        return [(graph, graph.result)]

    def _walk(self, needed: list[tuple[Graph, Node]]) -> None:
        """Follow up who needs which node until nobody needs anything new."""
        while needed:
            graph, node = needed.pop()
            if node in self._seen[graph]:
                continue
            self._seen[graph].add(node)
            if isinstance(node, ConstantNode):
                if isinstance(node.value, Graph):
                    needed += self._hold(graph, node.value)
            elif node.graph is not graph:
                self.free[graph][node] = None
                needed += [(holder, node) for holder in self._holders[graph]]
            elif isinstance(node, Apply):
                needed += [(graph, x) for x in node.inputs]

    def _hold(self, holder: Graph, inner: Graph) -> list[tuple[Graph, Node]]:
        found = [] if inner in self.free else self._enter(inner)
        if holder not in self._holders[inner]:
            self._holders[inner][holder] = None
            found += [(holder, node) for node in self.free[inner]]
        return found

    def holders(self, graph: Graph) -> list[Graph]:
        """Return the graphs that use this one as a value."""
        return list(self._holders[graph])

    def order(self, graph: Graph) -> tuple[Apply, ...]:
        """Return the applications that belong to the graph and are needed, each after what it uses.

        What a closure borrows counts as used by the one who makes the closure.

        Raises:
            EngineError: A node depends on itself.
        """
        if graph not in self._orders:
            self._orders[graph] = self._sorted(graph)
        return self._orders[graph]

    def needs(self, graph: Graph, node: Node) -> Iterator[Node]:
        """Return the nodes of the graph whose values must be there before the node's."""
        inputs = node.inputs if isinstance(node, Apply) and node.graph is graph else (node,)
        for x in inputs:
            if isinstance(x, ConstantNode):
                if isinstance(x.value, Graph):
                    yield from (free for free in self.free[x.value] if free.graph is graph)
            elif x.graph is graph and x is not node:
                yield x

    def _sorted(self, graph: Graph) -> tuple[Apply, ...]:
        done: dict[Apply, None] = {}
        opened: set[Node] = set()
        roots = [graph.result] if isinstance(graph.result, Apply) else list(self.needs(graph, graph.result))
        stack: list[tuple[Node, Iterator[Node]]] = [(x, self.needs(graph, x)) for x in reversed(roots)]
        while stack:
            node, rest = stack[-1]
            if not isinstance(node, Apply) or node in done or node.graph is not graph:
                stack.pop()
                continue
            opened.add(node)
            for x in rest:
                if isinstance(x, Apply) and x not in done:
                    if x in opened:
                        raise EngineError(f"{x!r} of graph '{graph.name}' depends on itself; a cycle needs a function")
                    stack.append((x, self.needs(graph, x)))
                    break
            else:
                done[node] = None
                stack.pop()
        return tuple(done)


def reachable(graph: Graph) -> list[Graph]:
    """Return the graph itself, then every graph that it uses as a value, directly or through others."""
    return Scopes(graph).graphs


def free_variables(graph: Graph) -> list[Node]:
    """Return the nodes of other graphs that the graph, or a graph inside it, uses."""
    return list(Scopes(graph).free[graph])


def order(graph: Graph) -> tuple[Apply, ...]:
    """Return the applications that belong to the graph and are needed, each after what it uses."""
    return Scopes(graph).order(graph)


def users(graph: Graph) -> dict[Node, list[Apply]]:
    """Return for every node who uses it, in the graph and all graphs that can be reached from it."""
    scopes = Scopes(graph)
    found: dict[Node, list[Apply]] = {}
    for inner in scopes.graphs:
        for node in scopes.order(inner):
            for x in dict.fromkeys(node.inputs):
                found.setdefault(x, []).append(node)
    return found
