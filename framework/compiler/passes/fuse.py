"""Fusion: what is computed element by element, and what sums it up, in one loop.

A group becomes a graph of its own, `Fused`, that is applied once; a backend compiles it to one kernel, and the
reference evaluator runs it like any other graph. Groups grow greedily along the edges from producer to consumer. A
group must stay convex: no path may leave it and come back, or it could not be computed at once. That is looked up in
the sets of ancestors, kept as bits of one integer for each group.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from ...ir import Apply, ConstantNode, Graph, Node
from ...ir.control_ops import make_tuple, tuple_getitem
from ...ir.visit import Scopes
from ...specs import Shape, Spec
from ..rewrite import rebuild

__all__ = ["Fused", "Kind", "fuse"]

#: What a node is to the backend: an element-wise operation, a sum over leading or all axes, or neither.
Kind = Callable[[Apply], Literal["element", "sum"] | None]

# Arrays that one loop reads and writes; with more of them, registers and streams run out. Our choice.
_LARGEST_OPERANDS = 12


class Fused(Graph):
    """A graph that is one kernel: element-wise operations on one shape and sums of their results."""

    __slots__ = ()


def fuse(graph: Graph, kind: Kind, alone: Callable[[Apply], bool] = lambda node: False) -> Graph:
    """Group two operations and more, each group applied as a `Fused` graph.

    Args:
        kind: Which operations can be members of a group.
        alone: Those that make a group even by themselves.
    """
    graph = rebuild(graph, lambda node, inputs, home: None)  # a copy, which is changed below
    groups: dict[Node, _Group] = {}
    for inner in Scopes(graph).graphs:
        groups.update(_Grouping(inner, kind).found(alone))
    return _replaced(graph, groups) if groups else graph


@dataclass(eq=False)
class _Group:
    """Applications that are computed at once, in order."""

    members: list[Apply]
    shape: Shape
    bits: int
    ancestors: int
    sums: set[Node] = field(default_factory=set)


class _Grouping:
    """The groups of one graph."""

    def __init__(self, graph: Graph, kind: Kind) -> None:
        self._order = Scopes(graph).order(graph)
        self._kinds = {node: kind(node) for node in self._order}
        self._result = graph.result
        self._place = {node: i for i, node in enumerate(self._order)}
        self._group: list[_Group] = []
        self._users: dict[Node, list[Apply]] = {}
        for i, node in enumerate(self._order):
            self._group.append(self._single(i, node))
            for x in node.inputs:
                self._users.setdefault(x, []).append(node)

    def _single(self, i: int, node: Apply) -> _Group:
        ancestors = 0
        for x in node.inputs:
            if x in self._place:
                ancestors |= self._group[self._place[x]].ancestors | (1 << self._place[x])
        is_sum = self._kinds[node] == "sum"
        spec = node.inputs[1].type if is_sum else node.type
        shape = spec.shape if isinstance(spec, Spec) else ()
        return _Group([node], shape, 1 << i, ancestors, {node} if is_sum else set())

    def found(self, alone: Callable[[Apply], bool]) -> dict[Node, _Group]:
        """Return the groups of more than one member, and those that `alone` allows, by member."""
        for node in self._order:
            if self._kinds[node] is None:
                continue
            for x in node.arguments:
                if x in self._place and self._kinds.get(x) == "element":
                    self._join(self._place[node], self._place[x])
        for users in self._users.values():  # neighbours that read the same array
            fit = [user for user in users if user in self._place and self._kinds[user] is not None]
            for other in fit[1:]:
                self._join(self._place[fit[0]], self._place[other])
        chosen: dict[Node, _Group] = {}
        for node in self._order:
            group = self._group[self._place[node]]
            if len(group.members) > 1 or (self._kinds[node] is not None and alone(node)):
                chosen[node] = group
        return chosen

    def _join(self, i: int, j: int) -> None:
        a, b = self._group[i], self._group[j]
        if a is b or a.shape != b.shape or not self._may_join(a, b):
            return
        bits, ancestors = a.bits | b.bits, a.ancestors | b.ancestors
        members = sorted([*a.members, *b.members], key=self._place.__getitem__)
        joined = _Group(members, a.shape, bits, ancestors & ~bits, a.sums | b.sums)
        for k, group in enumerate(self._group):
            if group.bits & bits:
                self._group[k] = joined
            elif group.ancestors & bits:
                group.ancestors |= bits | joined.ancestors

    def _may_join(self, a: _Group, b: _Group) -> bool:
        bits = a.bits | b.bits
        outside = (a.ancestors | b.ancestors) & ~bits
        while outside:  # does anything that comes before one of the members come after another?
            lowest = outside & -outside
            if self._group[lowest.bit_length() - 1].ancestors & bits:
                return False
            outside ^= lowest
        sums = a.sums | b.sums
        members = [*a.members, *b.members]
        if any(x in sums for node in members for x in node.arguments):
            return False
        return self._operands(members) <= _LARGEST_OPERANDS

    def _operands(self, members: list[Apply]) -> int:
        inside = set(members)
        read = {x for node in members for x in node.arguments if x not in inside and not isinstance(x, ConstantNode)}
        written = [node for node in members if is_seen_outside(node, inside, self._users, self._result)]
        return len(read) + len(written)


def is_seen_outside(node: Node, inside: set[Apply], users: dict[Node, list[Apply]], result: Node) -> bool:
    """Return whether anybody but the members uses the node."""
    return node is result or any(user not in inside for user in users.get(node, ()))


def _replaced(graph: Graph, groups: dict[Node, _Group]) -> Graph:
    """Return the graph with an application of a `Fused` graph in the place of each group."""
    scopes = Scopes(graph)
    users: dict[Node, list[Apply]] = {}
    results = {inner.result for inner in scopes.graphs}
    for inner in scopes.graphs:
        for node in scopes.order(inner):
            for x in node.inputs:
                users.setdefault(x, []).append(node)
    calls: dict[int, tuple[Fused, list[Node], dict[Node, int]]] = {}
    for group in {id(group): group for group in groups.values()}.values():
        calls[id(group)] = _fused(group, users, results)
    return _substituted(graph, _stand_ins(groups, calls))


def _fused(
    group: _Group, users: dict[Node, list[Apply]], results: set[Node]
) -> tuple[Fused, list[Node], dict[Node, int]]:
    """Return the kernel's graph, the nodes it is applied to, and which member is which output."""
    inside = set(group.members)
    fused = Fused("fused_" + "_".join(dict.fromkeys(_name(node) for node in group.members)))
    made: dict[Node, Node] = {}
    read: list[Node] = []
    for node in group.members:
        for x in node.arguments:
            if x in made or x in inside:
                continue
            if isinstance(x, ConstantNode) and _is_number(x):
                made[x] = x
            else:
                made[x] = fused.add_parameter(x.type)
                read.append(x)
        inputs = [node.inputs[0], *(made[x] for x in node.arguments)]
        made[node] = Apply(fused, inputs, node.type, node.attributes, node.where)
    seen = [x for x in group.members if x in results or any(user not in inside for user in users.get(x, ()))]
    outputs = [made[node] for node in seen]
    fused.output = outputs[0] if len(outputs) == 1 else fused.apply(make_tuple, *outputs)
    return fused, read, {node: i for i, node in enumerate(seen)}


def _name(node: Apply) -> str:
    function = node.inputs[0]
    return str(getattr(function.value, "name", "")) if isinstance(function, ConstantNode) else ""


def _is_number(node: ConstantNode) -> bool:
    return isinstance(node.value, bool | int | float)


def _stand_ins(
    groups: dict[Node, _Group], calls: dict[int, tuple[Fused, list[Node], dict[Node, int]]]
) -> dict[Node, Node]:
    """Return for each member that is seen outside the call, or the part of it, that gives its value."""
    found: dict[Node, Node] = {}
    for group in {id(group): group for group in groups.values()}.values():
        fused, read, outputs = calls[id(group)]
        home = group.members[0].graph
        assert home is not None
        call = Apply(home, [ConstantNode(fused, fused.type), *read], fused.type.result, None, group.members[-1].where)
        for node, index in outputs.items():
            found[node] = call if len(outputs) == 1 else home.apply(tuple_getitem, call, index=index)
    return found


def _substituted(graph: Graph, stand_ins: dict[Node, Node]) -> Graph:
    """Return a new graph in which other nodes stand for some of the old; those may read old nodes themselves."""
    for inner in Scopes(graph).graphs:
        if inner.result in stand_ins:
            inner.output = stand_ins[inner.result]
    seen: set[Node] = set()
    stack: list[Node] = [inner.result for inner in Scopes(graph).graphs]
    while stack:
        node = stack.pop()
        if node in seen or not isinstance(node, Apply):
            continue
        seen.add(node)
        node.inputs = [stand_ins.get(x, x) for x in node.inputs]
        stack.extend(node.inputs)
    return rebuild(graph, lambda node, inputs, home: None)
