"""The way back through the nodes of one graph: cotangents of the result become cotangents of what it was made of.

A cotangent that is zero is no node at all (None); of a tuple it is known part by part. So only what somebody asked for
and something depends on is computed.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

from ...ir import Apply, Constant, Graph, Node, TupleType
from ...ir.control import Control, make_tuple, switch, tuple_getitem
from ...ir.cotangent import (
    ENVIRONMENT,
    add_cotangents,
    carries_gradient,
    environment_getitem,
    make_environment,
    zero_cotangent,
    zero_cotangent_like,
)
from ...ir.types import Abstract
from ...primitive import PRIMITIVES, Primitive
from ...shape import Spec
from .activity import pulled_inputs
from .rules import RuleCapture

__all__ = ["Sweep", "World", "pull_nodes"]

#: None, a node, or the cotangents of a tuple's parts.
_Cotangent: TypeAlias = Any


class World(Protocol):
    """What the way back has to know of the way forward."""

    def image(self, node: Node) -> Node:
        """The node that holds the value on the way forward."""

    def part(self, node: Node, index: int) -> Node:
        """The node that holds part `index` of a tuple on the way forward."""

    def is_active(self, node: Node) -> bool:
        """Whether a gradient has to flow through."""

    def environment(self, graph: Graph) -> list[Node]:
        """The active free variables of a graph."""

    def back_propagator(self, node: Apply) -> Node:
        """What turns the cotangent of a call into those of its function and arguments."""


class Sweep:
    """Cotangents on their way back, as nodes of `graph`."""

    def __init__(self, graph: Graph, world: World) -> None:
        self._graph, self._world = graph, world
        self._found: dict[Node, _Cotangent] = {}
        self._rules = RuleCapture(graph, pull_nodes)

    def add(self, node: Node, cotangent: _Cotangent) -> None:
        """Nothing; the cotangent is added to those that the node has got from its other users."""
        if cotangent is None or not self._world.is_active(node):
            return
        if isinstance(node, Constant):
            for index, free in enumerate(self._world.environment(node.value)):
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
        return self._graph.apply(PRIMITIVES["add"] if isinstance(type, Spec) else add_cotangents, a, b)

    def _parts(self, type: TupleType, cotangent: _Cotangent) -> Sequence[_Cotangent]:
        """The cotangents of a tuple's parts."""
        if not isinstance(cotangent, Node):
            return cotangent or [None] * len(type.elements)
        if isinstance(cotangent, Apply) and cotangent.applies("make_tuple"):
            return cotangent.arguments
        return [
            self._graph.apply(tuple_getitem, cotangent, index=index) if carries_gradient(part) else None
            for index, part in enumerate(type.elements)
        ]

    def complete(self, node: Node) -> Node:
        """The cotangent of a node, now that all its users have been visited; zeros where there is none."""
        return self._complete(node.type, self._found.get(node), lambda: self._world.image(node))

    def found(self, node: Node) -> bool:
        """Whether anything flowed back to a node."""
        return self._found.get(node) is not None

    def _complete(self, type: Abstract, cotangent: _Cotangent, like: Callable[[], Node]) -> Node:
        if isinstance(cotangent, Node):
            return cotangent
        if isinstance(type, TupleType):
            both = zip(type.elements, self._parts(type, cotangent), strict=True)
            parts = [self._complete(part, x, self._element(like, i)) for i, (part, x) in enumerate(both)]
            return self._graph.apply(make_tuple, *parts)
        if not carries_gradient(type):
            return Constant(None)
        if isinstance(type, Spec):
            if all(isinstance(length, int) for length in type.shape):
                return self._graph.apply(zero_cotangent, shape=type.shape, dtype=type.dtype)
            return self._graph.apply(zero_cotangent_like, like())
        return Constant(None, ENVIRONMENT)

    def _element(self, whole: Callable[[], Node], index: int) -> Callable[[], Node]:
        return lambda: self._graph.apply(tuple_getitem, whole(), index=index)

    def run(self, nodes: Iterable[Apply]) -> None:
        """Nothing; goes back through nodes, which come in the order in which they were computed."""
        for node in reversed(tuple(nodes)):
            cotangent = self._found.get(node)
            if cotangent is None:
                continue
            operation = node.function.value if isinstance(node.function, Constant) else None
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
        g: Any = cotangent
        out: Any = None
        if isinstance(node.type, TupleType):
            g = [x if x is None or isinstance(x, Node) else None for x in self._parts(node.type, cotangent)]
            if primitive.saves_output:
                out = [world.part(node, index) for index in range(len(node.type.elements))]
        elif primitive.saves_output:
            out = world.image(node)
        inputs = [world.image(x) for x in arguments]
        pulled = self._rules.pull(primitive, needs, g, out, inputs, node.attributes, node.where)
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
                    self.add(x, self._graph.apply(environment_getitem, cotangent, like, index=index))
        elif name == "environment_getitem":
            whole = self._complete(node.type, cotangent, lambda: self._world.image(node))
            before = [Constant(None)] * node.attributes["index"]
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
        """The nodes from the inputs to the outputs, in the order in which they were made."""
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
    """The cotangents of `inputs`, nodes of a straight line of the graph, from those of `outputs`; new nodes of it."""
    here = _Here(graph, outputs, inputs)
    sweep = Sweep(graph, here)
    for node, cotangent in zip(outputs, cotangents, strict=True):
        sweep.add(node, cotangent)
    sweep.run(here.nodes)
    return [sweep.complete(x) if sweep.found(x) else None for x in inputs]
