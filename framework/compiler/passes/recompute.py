"""Values of marked segments computed again on the way back instead of being kept for it.

    x -> in -> a -> b -> out -> y            forward: a and b are let go
    x -> depend(x, g) -> a' -> b'            backward: from the gradient g of y on, a' and b' stand for a and b

`framework.recompute(fn)` marks what goes in and comes out when it is captured; the rule of "out" marks the gradient
that comes back. Copied is what depends on "in" otherwise than over "out", as far as the way back asks for it. Random
keys and other effects are not copied, so a mask is drawn from the same key. A segment inside another is copied with it
and kept from then on.

The pass comes last: nothing that shares equal values may follow it.

Reference:
    Chen et al. 2016, arXiv:1604.06174.
"""

from collections.abc import Sequence

from ...ir import Apply, Constant, Graph, Node
from ...ir.control import depend
from ...ir.visit import order
from ..rebuild import rebuild
from .schedule import has_effect

__all__ = ["recompute"]


def recompute(graph: Graph) -> Graph:
    """In: an inlined graph. Out: one without segments; on the way back their values are computed again."""
    if not any(node.applies("segment") for node in order(graph)):
        return rebuild(graph, _unmarked)
    graph = rebuild(graph, lambda node, inputs, home: None)  # a copy, which is changed below
    numbers = dict.fromkeys(node.attributes["number"] for node in order(graph) if node.applies("segment"))
    for number in numbers:
        _Segment(graph, number).copy_for_the_way_back()
    return rebuild(graph, _unmarked)


def _unmarked(node: Apply, inputs: list[Node], graph: Graph) -> Node | None:
    return inputs[1] if node.applies("segment") else None


class _Segment:
    """One segment of a graph that is being changed.

    Args:
        graph: The graph; control flow inside it stays as it is.
        number: Of the segment.
    """

    def __init__(self, graph: Graph, number: int) -> None:
        self._graph = graph
        self._order = order(graph)
        sides: dict[str, list[Apply]] = {"in": [], "out": [], "back": []}
        for node in self._order:
            if node.applies("segment") and node.attributes["number"] == number:
                sides[node.attributes["side"]].append(node)
        self._entries = sides["in"]
        inside = self._below(sides["in"], sides["out"])
        # In a derivative of second order a gradient may itself be made of values inside: it comes too late.
        gradients = [node for node in sides["back"] if node not in inside]
        after = self._below(gradients, (), itself=False)
        self._triggers = [node for node in gradients if node not in after]
        self._later = self._below(self._triggers, ())
        self._inside = inside - self._later
        self._copies: dict[Node, Node] = {}

    def _below(self, starts: Sequence[Apply], ends: Sequence[Apply], *, itself: bool = True) -> set[Node]:
        """What depends on the starts, other than through the ends."""
        roots, stops = set(starts), set(ends)
        found: set[Node] = set()
        for node in self._order:
            if node not in stops and ((itself and node in roots) or any(x in found or x in roots for x in node.inputs)):
                found.add(node)
        return found

    def copy_for_the_way_back(self) -> None:
        """Nothing; what follows the gradient that comes back uses copies, which are computed when that is there."""
        if any(entry.inputs[1] in self._later for entry in self._entries):
            return  # the way back of a way back: what goes in is not there before
        for node in self._order:
            if node in self._later and not _keeps_originals(node):
                node.inputs[:] = [self._copy(x) for x in node.inputs]

    def _copy(self, root: Node) -> Node:
        """What stands for the node on the way back; no recursion, segments may be long."""
        stack = [root]
        while stack:
            node = stack[-1]
            wanted = self._sources(node)
            missing = [x for x in wanted if x not in self._copies]
            if missing:
                stack.extend(missing)
                continue
            self._copies.setdefault(node, self._made(node))
            stack.pop()
        return self._copies[root]

    def _sources(self, node: Node) -> list[Node]:
        """What the copy of a node is made of; nothing for one that is not copied."""
        if node not in self._inside or not isinstance(node, Apply) or node in self._entries:
            return []
        if node.applies("observe"):
            return [node.inputs[1]]
        return [] if _is_kept(node) else node.inputs

    def _made(self, node: Node) -> Node:
        if node in self._entries:
            assert isinstance(node, Apply)
            return self._graph.apply(depend, node.inputs[1], *self._triggers, where=node.where)
        sources = self._sources(node)
        if not sources or not isinstance(node, Apply):
            return node
        if node.applies("observe"):  # the tap saw it the first time
            return self._copies[node.inputs[1]]
        return Apply(self._graph, [self._copies[x] for x in sources], node.type, node.attributes, node.where)


def _is_kept(node: Apply) -> bool:
    """Whether the node has an effect or calls a graph, and so is not applied twice."""
    function = node.inputs[0]
    return has_effect(node) or (isinstance(function, Constant) and isinstance(function.value, Graph))


def _keeps_originals(node: Apply) -> bool:
    return has_effect(node) or node.applies("make_tuple") or node.applies("depend")
