"""A graph made anew, node by node: what every pass is written with.

A pass never changes the graph it is given. It says, for an application whose inputs have been rebuilt already, which
node stands for it in the new graph. Only what the output needs is visited, so every pass drops dead code on its way.
"""

from collections.abc import Callable

from ..ir import Apply, Constant, Graph, Node

__all__ = ["Rule", "rebuild"]

#: `rule(node, inputs, graph)`: the node that stands for `node` in the new `graph`, or None for a plain copy.
Rule = Callable[[Apply, list[Node], Graph], "Node | None"]


def rebuild(graph: Graph, rule: Rule) -> Graph:
    """A new graph; inner graphs are rebuilt with it, each once."""
    return _Builder(rule).graph(graph)


class _Builder:
    """Old nodes and graphs and what stands for them."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._nodes: dict[Node, Node] = {}
        self._graphs: dict[Graph, Graph] = {}

    def graph(self, old: Graph) -> Graph:
        """The new graph, complete."""
        new = self._header(old)
        new.output = self._node(old.result)
        for inner, rebuilt in list(self._graphs.items()):
            if rebuilt.output is None:  # one that was only mentioned while it was in the making
                rebuilt.output = self._node(inner.result)
        return new

    def _header(self, old: Graph) -> Graph:
        new = type(old)(old.name)
        self._graphs[old] = new
        for parameter in old.parameters:
            self._nodes[parameter] = new.add_parameter(parameter.type, parameter.name, parameter.weight)
        return new

    def _node(self, root: Node) -> Node:
        """The new node, its inputs built before it; no recursion, graphs may be long."""
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self._nodes:
                stack.pop()
                continue
            missing = self._missing(node)
            if missing:
                stack.extend(missing)
                continue
            self._nodes[node] = self._make(node)
            stack.pop()
        return self._nodes[root]

    def _missing(self, node: Node) -> list[Node]:
        if isinstance(node, Apply):
            return [x for x in reversed(node.inputs) if x not in self._nodes]
        if isinstance(node, Constant) and isinstance(node.value, Graph) and node.value not in self._graphs:
            self._header(node.value)
            return [node.value.result]
        return []

    def _make(self, node: Node) -> Node:
        if isinstance(node, Constant):
            return self._constant(node)
        if not isinstance(node, Apply):
            raise TypeError(f"{node!r} belongs to a graph that encloses the one to be rebuilt")
        inputs = [self._nodes[x] for x in node.inputs]
        assert node.graph is not None
        home = self._graphs[node.graph]
        made = self._rule(node, inputs, home)
        return Apply(home, inputs, node.type, node.attributes, node.where) if made is None else made

    def _constant(self, node: Constant) -> Node:
        if not isinstance(node.value, Graph):
            return node
        new = self._graphs[node.value]
        if new.output is None:
            new.output = self._nodes.get(node.value.result)  # None inside a recursion; filled in at the end
        return Constant(new, node.type)
