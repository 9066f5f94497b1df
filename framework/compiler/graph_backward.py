"""The backward pass of one graph: which nodes a gradient flows through, their rules, and the sweep over them.

A cotangent that is zero is no node at all (None); of a tuple it is known part by part. So only what somebody asked for
and something depends on is computed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol, TypeAlias, cast

import numpy as np

from ..context import quiet
from ..ir import Apply, ConstantNode, Graph, Node, TupleType, Where
from ..ir.control_ops import (
    ENVIRONMENT,
    Control,
    add_cotangents,
    carries_gradient,
    environment_getitem,
    make_environment,
    make_tuple,
    switch,
    tuple_getitem,
    zero_cotangent,
    zero_cotangent_like,
)
from ..ir.ir_types import Abstract, FunctionType
from ..ir.visit import Scopes
from ..primitive import PRIMITIVES, Primitive
from ..specs import Spec
from ..tensor import wrap
from .capture import GraphCapture

__all__ = ["Activity", "RuleCapture", "Sweep", "World", "pull_nodes", "pulled_inputs"]

#: Through which arguments of a control operation gradients flow; all of them where it is not listed.
_PATHS: dict[str, slice] = {
    "depend": slice(0, 1),
    "assign": slice(0, 1),
    "switch": slice(1, 3),
    "environment_getitem": slice(0, 1),
    "next_key": slice(0, 0),
    "host_call": slice(0, 0),
    "zero_cotangent": slice(0, 0),
    "zero_cotangent_like": slice(0, 0),
}


def pulled_inputs(node: Apply) -> Iterator[Node]:
    """Return the arguments of a primitive or control operation that its rules can give a gradient."""
    operation = node.function.value if isinstance(node.function, ConstantNode) else None
    if isinstance(operation, Control):
        yield from node.arguments[_PATHS.get(operation.name, slice(None))]
    elif isinstance(operation, Primitive) and operation._joint is not None:
        yield from node.arguments
    elif isinstance(operation, Primitive):
        yield from (x for x, rule in zip(node.arguments, operation._rules, strict=False) if rule is not None)


class Activity:
    """The active nodes of a program; one answer for every node, whoever calls its graph.

    Args:
        scopes: Of the outermost graph.
        by: The nodes that are differentiated by.
    """

    def __init__(self, scopes: Scopes, by: Iterable[Node]) -> None:
        self._scopes = scopes
        self._active: set[Node] = {node for node in by if carries_gradient(node.type)}
        for graph in self._escaping():
            self._active.update(p for p in graph.parameters if carries_gradient(p.type))
        while self._spread():
            pass

    def __contains__(self, node: Node) -> bool:
        if isinstance(node, ConstantNode):
            return isinstance(node.value, Graph) and bool(self.environment(node.value))
        return node in self._active

    def environment(self, graph: Graph) -> list[Node]:
        """Return the active free variables of a graph, in their order."""
        return [node for node in self._scopes.free[graph] if node in self._active]

    def targets(self, function: Node) -> list[Graph] | None:
        """Return the graphs that a function node can be, where that is plain to see; else None."""
        if isinstance(function, ConstantNode):
            return [function.value] if isinstance(function.value, Graph) else None
        if isinstance(function, Apply) and function.applies("switch"):
            both = [self.targets(x) for x in function.arguments[1:]]
            return None if both[0] is None or both[1] is None else both[0] + both[1]
        return None

    def _escaping(self) -> set[Graph]:
        """Return the graphs that are used as values: nobody knows who calls them with what."""
        values: list[Node] = []
        for graph in self._scopes.graphs:
            values.append(graph.result)
            for user in self._scopes.order(graph):
                values += [] if user.applies("switch") else user.arguments
                if not isinstance(user.function, ConstantNode) and self.targets(user.function) is None:
                    values.append(user.function)
        found: set[Graph] = set()
        seen: set[Node] = set()
        while values:
            node = values.pop()
            if node in seen or not isinstance(node.type, FunctionType):
                continue
            seen.add(node)
            if isinstance(node, ConstantNode) and isinstance(node.value, Graph):
                found.add(node.value)
            elif isinstance(node, Apply) and node.applies("switch"):
                values += node.arguments[1:]
        return found

    def _spread(self) -> bool:
        """Return whether one walk over the program made anything more active."""
        before = len(self._active)
        for graph in self._scopes.graphs:
            for node in self._scopes.order(graph):
                if isinstance(node.function, ConstantNode) and isinstance(node.function.value, Primitive | Control):
                    active = any(x in self for x in pulled_inputs(node))
                else:
                    active = self._called(node)
                if active and carries_gradient(node.type):
                    self._active.add(node)
        return len(self._active) > before

    def _called(self, node: Apply) -> bool:
        """Return whether the result of a call is active; active arguments make the callee's parameters active."""
        targets = self.targets(node.function)
        if targets is None:
            return node.function in self or any(x in self for x in node.arguments)
        for graph in targets:
            for parameter, x in zip(graph.parameters, node.arguments, strict=False):
                if x in self and carries_gradient(parameter.type):
                    self._active.add(parameter)
        return any(graph.result in self for graph in targets)


#: Goes back from the outputs of nodes just captured to some of their inputs:
#: `(graph, outputs, cotangents, inputs) -> cotangents of the inputs`.
PullNodes = Callable[[Graph, Sequence[Node], Sequence[Node | None], Sequence[Node]], Sequence[Node | None]]


class RuleCapture(GraphCapture):
    """Appends what rules compute to a graph.

    Args:
        graph: Where the nodes go.
        pull_nodes: How to differentiate a composition, for rules that are given as one.
    """

    def __init__(self, graph: Graph, pull_nodes: PullNodes) -> None:
        super().__init__(graph.name)
        self.root = self.graph = graph
        self._where = Where()
        self._pull_nodes = pull_nodes

    def where(self) -> Where:
        """Return the place of the node whose rule is running."""
        return self._where

    def pull(
        self,
        primitive: Primitive,
        needs: Sequence[bool],
        cotangent: Node | Sequence[Node | None],
        out: Node | Sequence[Node] | None,
        inputs: Sequence[Node],
        attributes: dict[str, object],
        where: Where,
    ) -> list[Node | None]:
        """Return the cotangents of the inputs that need one, from that of the output (one each, of several)."""
        self._where = where
        given = [self.value_of(x) for x in inputs]
        g = self.value_of(cotangent) if isinstance(cotangent, Node) else [self._optional(part) for part in cotangent]
        result: object = None
        if primitive.saves_output:
            result = self.value_of(out) if isinstance(out, Node) else tuple(self.value_of(part) for part in out or ())
        with self.active(), quiet():
            if primitive._joint is not None:
                found = primitive._joint(needs, g, result, *given, **attributes)
            else:
                found = [
                    rule(g, result, *given, **attributes) if need and rule is not None else None
                    for need, rule in zip(needs, primitive._rules, strict=True)
                ]
        return [self.node_of(x) if need and x is not None else None for x, need in zip(found, needs, strict=True)]

    def value_of(self, node: Node) -> object:
        """Return what a rule sees of a node: a constant's array as a tensor."""
        value = super().value_of(node)
        return wrap(value) if isinstance(value, np.ndarray) else value

    def _optional(self, node: Node | None) -> object:
        return None if node is None else self.value_of(node)

    def pull_back(
        self,
        composition: Callable[..., object],
        needs: Sequence[bool],
        g: object,
        inputs: Sequence[object],
        attributes: dict[str, object],
    ) -> list[object]:
        """Return the cotangents of the needed inputs of a function of tensors, which is captured and gone back
        through."""
        identity = PRIMITIVES["identity"]
        aliases = [self.apply(identity, (x,), {}) if need else x for x, need in zip(inputs, needs, strict=True)]
        result = composition(*aliases, **attributes)
        outputs = result if isinstance(result, tuple) else (result,)
        weights: Sequence[object] = cast("Sequence[object]", g) if isinstance(result, tuple) else (g,)
        found = self._pull_nodes(
            self.graph,
            [self.node_of(y) for y in outputs],
            [None if w is None else self.node_of(w) for w in weights],
            [self.node_of(x) for x, need in zip(aliases, needs, strict=True) if need],
        )
        rest = iter(None if node is None else self.value_of(node) for node in found)
        return [next(rest) if need else None for need in needs]


#: None, a node, or the cotangents of a tuple's parts.
_Cotangent: TypeAlias = "Node | Sequence[_Cotangent] | None"


class World(Protocol):
    """What the way back has to know of the way forward."""

    def image(self, node: Node) -> Node:
        """Return the node that holds the value on the way forward."""

    def part(self, node: Node, index: int) -> Node:
        """Return the node that holds part `index` of a tuple on the way forward."""

    def is_active(self, node: Node) -> bool:
        """Return whether a gradient has to flow through."""

    def environment(self, graph: Graph) -> list[Node]:
        """Return the active free variables of a graph."""

    def back_propagator(self, node: Apply) -> Node:
        """Return what turns the cotangent of a call into those of its function and arguments."""


class Sweep:
    """Cotangents on their way back, as nodes of `graph`."""

    def __init__(self, graph: Graph, world: World) -> None:
        self._graph, self._world = graph, world
        self._found: dict[Node, _Cotangent] = {}
        self._rules = RuleCapture(graph, pull_nodes)

    def add(self, node: Node, cotangent: _Cotangent) -> None:
        """Add the cotangent to those that the node has got from its other users."""
        if cotangent is None or not self._world.is_active(node):
            return
        if isinstance(node, ConstantNode):
            for index, free in enumerate(self._world.environment(node.value)):
                assert isinstance(cotangent, Node)
                part = self._graph.apply(environment_getitem, cotangent, self._world.image(free), index=index)
                self.add(free, part)
            return
        self._found[node] = self._sum(node.type, self._found.get(node), cotangent)

    def _sum(self, type: Abstract, a: _Cotangent, b: _Cotangent) -> _Cotangent:
        if a is None or b is None:
            return b if a is None else a
        if isinstance(type, TupleType):
            both = zip(type.elements, self._parts(type, a), self._parts(type, b), strict=True)
            return [self._sum(part, x, y) for part, x, y in both]
        assert isinstance(a, Node)
        assert isinstance(b, Node)
        return self._graph.apply(PRIMITIVES["add"] if isinstance(type, Spec) else add_cotangents, a, b)

    def _parts(self, type: TupleType, cotangent: _Cotangent) -> Sequence[_Cotangent]:
        """Return the cotangents of a tuple's parts."""
        if not isinstance(cotangent, Node):
            return cotangent or [None] * len(type.elements)
        if isinstance(cotangent, Apply) and cotangent.applies("make_tuple"):
            return cotangent.arguments
        return [
            self._graph.apply(tuple_getitem, cotangent, index=index) if carries_gradient(part) else None
            for index, part in enumerate(type.elements)
        ]

    def complete(self, node: Node) -> Node:
        """Return the cotangent of a node, now that all its users have been visited; zeros where there is none."""
        return self._complete(node.type, self._found.get(node), lambda: self._world.image(node))

    def found(self, node: Node) -> bool:
        """Return whether anything flowed back to a node."""
        return self._found.get(node) is not None

    def _complete(self, type: Abstract, cotangent: _Cotangent, like: Callable[[], Node]) -> Node:
        if isinstance(cotangent, Node):
            return cotangent
        if isinstance(type, TupleType):
            both = zip(type.elements, self._parts(type, cotangent), strict=True)
            parts = [self._complete(part, x, self._element(like, i)) for i, (part, x) in enumerate(both)]
            return self._graph.apply(make_tuple, *parts)
        if not carries_gradient(type):
            return ConstantNode(None)
        if isinstance(type, Spec):
            if all(isinstance(length, int) for length in type.shape):
                return self._graph.apply(zero_cotangent, shape=type.shape, dtype=type.dtype)
            return self._graph.apply(zero_cotangent_like, like())
        return ConstantNode(None, ENVIRONMENT)

    def _element(self, whole: Callable[[], Node], index: int) -> Callable[[], Node]:
        return lambda: self._graph.apply(tuple_getitem, whole(), index=index)

    def run(self, nodes: Iterable[Apply]) -> None:
        """Go back through nodes, which come in the order in which they were computed."""
        for node in reversed(tuple(nodes)):
            cotangent = self._found.get(node)
            if cotangent is None:
                continue
            operation = node.function.value if isinstance(node.function, ConstantNode) else None
            if isinstance(operation, Primitive):
                self._primitive(node, operation, cotangent)
            elif isinstance(operation, Control):
                self._control(node, operation.name, cotangent)
            else:
                self._call(node, cotangent)
            del self._found[node]

    def _primitive(self, node: Apply, primitive: Primitive, cotangent: _Cotangent) -> None:
        world, arguments = self._world, node.arguments
        allowed = set(pulled_inputs(node))
        needs = [x in allowed and world.is_active(x) for x in arguments]
        out: Node | list[Node] | None = None
        if isinstance(node.type, TupleType):
            parts = self._parts(node.type, cotangent)
            g: Node | list[Node | None] = [x if isinstance(x, Node) else None for x in parts]
            if primitive.saves_output:
                out = [world.part(node, index) for index in range(len(node.type.elements))]
        else:
            assert isinstance(cotangent, Node)
            g, out = cotangent, world.image(node) if primitive.saves_output else None
        inputs = [world.image(x) for x in arguments]
        pulled = self._rules.pull(primitive, needs, g, out, inputs, attributes=node.attributes, where=node.where)
        for x, part in zip(arguments, pulled, strict=True):
            self.add(x, part)

    def _control(self, node: Apply, name: str, cotangent: _Cotangent) -> None:
        arguments = node.arguments
        if name == "make_tuple":
            assert isinstance(node.type, TupleType)
            for x, part in zip(arguments, self._parts(node.type, cotangent), strict=True):
                self.add(x, part)
        elif name == "tuple_getitem":
            whole = arguments[0].type
            assert isinstance(whole, TupleType)
            parts: list[_Cotangent] = [None] * len(whole.elements)
            parts[node.attributes["index"]] = cotangent
            self.add(arguments[0], parts)
        elif name == "switch":
            self._switch(node, cotangent)
        else:
            self._environment(node, name, cotangent)

    def _switch(self, node: Apply, cotangent: _Cotangent) -> None:
        condition = self._world.image(node.arguments[0])
        given = self._complete(node.type, cotangent, lambda: self._world.image(node))
        for x, chosen in zip(node.arguments[1:], (True, False), strict=True):
            if self._world.is_active(x):
                nothing = self._complete(x.type, None, partial(self._world.image, x))
                both = (given, nothing) if chosen else (nothing, given)
                self.add(x, self._graph.apply(switch, condition, *both, where=node.where))

    def _environment(self, node: Apply, name: str, cotangent: _Cotangent) -> None:
        arguments = node.arguments
        if name == "make_environment":
            for index, x in enumerate(arguments):
                if self._world.is_active(x):
                    like = self._world.image(x)
                    assert isinstance(cotangent, Node)
                    self.add(x, self._graph.apply(environment_getitem, cotangent, like, index=index))
        elif name == "environment_getitem":
            whole = self._complete(node.type, cotangent, lambda: self._world.image(node))
            before = [ConstantNode(None)] * node.attributes["index"]
            self.add(arguments[0], self._graph.apply(make_environment, *before, whole))
        elif name == "add_cotangents":
            self.add(arguments[0], cotangent)
            self.add(arguments[1], cotangent)
        elif name in ("depend", "assign"):
            self.add(arguments[0], cotangent)
        else:
            raise NotImplementedError(f"no gradient is known of the control operation '{name}'")

    def _call(self, node: Apply, cotangent: _Cotangent) -> None:
        given = self._complete(node.type, cotangent, lambda: self._world.image(node))
        pulled = self._graph.call(self._world.back_propagator(node), given, where=node.where)
        for index, x in enumerate(node.inputs):
            if self._world.is_active(x):
                self.add(x, self._graph.apply(tuple_getitem, pulled, index=index))


class _Here:
    """The world of nodes that stand in the graph of the way back themselves: of a composition captured just now."""

    def __init__(self, graph: Graph, outputs: Sequence[Node], inputs: Sequence[Node]) -> None:
        self._graph = graph
        self._active = set(inputs)
        self.nodes = self._between(outputs)
        for node in self.nodes:
            if any(x in self._active for x in pulled_inputs(node)) and carries_gradient(node.type):
                self._active.add(node)

    def _between(self, outputs: Sequence[Node]) -> list[Apply]:
        """Return the nodes from the inputs to the outputs, in the order in which they were made."""
        seen: set[Node] = set()
        stack = list(outputs)
        while stack:
            node = stack.pop()
            if isinstance(node, Apply) and node.graph is self._graph and node not in seen and node not in self._active:
                seen.add(node)
                stack += node.arguments
        return sorted((node for node in seen if isinstance(node, Apply)), key=lambda node: node.serial)

    def image(self, node: Node) -> Node:
        return node

    def part(self, node: Node, index: int) -> Node:
        return self._graph.apply(tuple_getitem, node, index=index)

    def is_active(self, node: Node) -> bool:
        return node in self._active

    def environment(self, graph: Graph) -> list[Node]:
        raise AssertionError(f"rules are straight lines, but one uses the graph '{graph.name}'")

    def back_propagator(self, node: Apply) -> Node:
        raise AssertionError(f"rules are straight lines, but one applies {node!r}")


def pull_nodes(
    graph: Graph, outputs: Sequence[Node], cotangents: Sequence[Node | None], inputs: Sequence[Node]
) -> list[Node | None]:
    """Return the cotangents of `inputs`, nodes of a straight line of the graph, from those of `outputs`; new nodes of
    it."""
    here = _Here(graph, outputs, inputs)
    sweep = Sweep(graph, here)
    for node, cotangent in zip(outputs, cotangents, strict=True):
        sweep.add(node, cotangent)
    sweep.run(here.nodes)
    return [sweep.complete(x) if sweep.found(x) else None for x in inputs]
