"""Capture: while one is active, primitives become nodes of a graph instead of being computed.

All capture modes share it. What they differ in is who runs the code: Python itself (trace), an interpreter of its
syntax tree (ast), or of its bytecode. A capture knows

    the graph that is being built       weights that are met become its last parameters, other tensors constants
    effects so far                      assignments, random keys, observed values: they keep their order
    the cells that are running          every node has a site, every output of a cell a mark
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..context import CAPTURE
from ..errors import EngineError
from ..ir import Apply, Constant, Graph, Node, Parameter, TupleType, Where, type_of
from ..ir.control import Control, assign, depend, make_tuple, mark, take_key, tuple_getitem
from ..primitive import Primitive
from ..random import Key
from ..tensor import Parameter as Weight
from ..tensor import Tensor
from .traced import CaptureError, TracedKey, TracedTensor

__all__ = ["GraphCapture"]

_ENGINE = str(Path(__file__).resolve().parents[1])


class GraphCapture:
    """Builds one outermost graph and the graphs inside it.

    Attributes:
        graph: The graph that nodes are added to now.
        root: The outermost one.
        values: What weights hold at this point of the program: their parameter, or the last value assigned.
    """

    def __init__(self, name: str) -> None:
        self.root = self.graph = Graph(name)
        self.values: dict[int, Node] = {}
        self._weights: dict[int, Parameter] = {}
        self._kept: list[Any] = []  # what is known by id stays alive
        self._effects: dict[int, list[Node]] = {}
        self._sites: dict[int, str] = {}
        self._site: list[str] = []
        self._calls: dict[int, int] = {}

    @contextmanager
    def active(self) -> Iterator["GraphCapture"]:
        """A block in which primitives are captured."""
        token = CAPTURE.set(self)
        try:
            yield self
        finally:
            CAPTURE.reset(token)

    @contextmanager
    def inside(self, graph: Graph) -> Iterator[Graph]:
        """A block whose nodes belong to `graph`, an inner one that may use nodes of those around it."""
        outer, self.graph = self.graph, graph
        try:
            yield graph
        finally:
            self.graph = outer

    # Values in and out.

    def node_of(self, value: Any) -> Node:
        """The node that stands for a value: a traced one's own, a weight's parameter, or a constant."""
        if isinstance(value, TracedTensor | TracedKey):
            return value.node
        if isinstance(value, Weight):
            return self._weight(value)
        if isinstance(value, tuple | list):
            return self.graph.apply(make_tuple, *(self.node_of(part) for part in value), where=self.where())
        if isinstance(value, Tensor):
            self._kept.append(value)
        return Constant(value)

    def value_of(self, node: Node) -> Any:
        """What running code sees of a node: a traced tensor, a traced key, a tuple of such, or a constant's value."""
        if isinstance(node.type, TupleType):
            parts = range(len(node.type.elements))
            if isinstance(node, Apply) and node.applies("make_tuple"):
                return tuple(self.value_of(part) for part in node.arguments)
            return tuple(self.value_of(self.graph.apply(tuple_getitem, node, index=part)) for part in parts)
        if isinstance(node, Constant):
            return node.value
        if getattr(node.type, "kind", None) == Key.__name__:
            return TracedKey(node)
        return TracedTensor(node)

    def _weight(self, weight: Weight) -> Node:
        if id(weight) not in self._weights:
            parameter = self.root.add_parameter(type_of(weight), weight.name, weight)
            self._weights[id(weight)] = parameter
            self.values.setdefault(id(weight), parameter)
        return self.values[id(weight)]

    # The protocol of `context.Capture`.

    def apply(self, primitive: Primitive | Control, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """The traced result of an operation."""
        where = self.where()
        nodes = [self.node_of(x) for x in inputs]
        try:
            node = self.graph.apply(primitive, *nodes, where=where, **attributes)
        except EngineError as error:
            types = ", ".join(str(node.type) for node in nodes)
            raise type(error)(f"'{primitive.name}' cannot take {types} ({where}): {error}") from error
        return self.value_of(node)

    def assign(self, target: Tensor, data: Any) -> None:
        """Nothing; the graph overwrites a weight in place, and reads the new value from here on."""
        if not isinstance(target, Weight):
            raise CaptureError(f"only Parameters can be overwritten inside a compiled function, got {target!r}")
        value = self.node_of(data)
        self._weight(target)
        node = self.graph.apply(assign, self._weights[id(target)], value, *self._after(), where=self.where())
        self.values[id(target)] = self._effect(node)

    def next_key(self) -> Key:
        """A key that every call of the graph takes anew."""
        return TracedKey(self._effect(self.graph.apply(take_key, *self._after(), where=self.where())))

    def call_cell(self, cell: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """The traced output of a cell, its tensors marked."""
        if not self._site:
            for site, below in cell.cells_and_names():
                self._sites.setdefault(id(below), site)
        self._kept.append(cell)
        self._site.append(self._sites.get(id(cell), type(cell).__name__))
        try:
            output = self.construct(cell, inputs, options)
        finally:
            self._site.pop()
        call = self._calls.get(id(cell), 0)
        self._calls[id(cell)] = call + 1
        return self._marked(output, cell, call)

    def construct(self, cell: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """What the cell computes; a capture that interprets code overrides this."""
        return cell.construct(*inputs, **options)

    def _marked(self, output: Any, cell: Any, call: int) -> Any:
        if isinstance(output, TracedTensor):
            node = self.graph.apply(mark, output.node, cell=cell, call=call, index=0, where=self.where())
            return self.value_of(node)
        if not isinstance(output, tuple | list):
            return output
        parts = [
            self.value_of(self.graph.apply(mark, x.node, cell=cell, call=call, index=i, where=self.where()))
            if isinstance(x, TracedTensor)
            else x
            for i, x in enumerate(output)
        ]
        return type(output)(*parts) if hasattr(output, "_fields") else type(output)(parts)

    # Effects.

    def _effect(self, node: Node) -> Node:
        self._effects.setdefault(id(self.graph), []).append(node)
        return node

    def _after(self) -> list[Node]:
        """The effect that the next one has to follow."""
        return self._effects.get(id(self.graph), [])[-1:]

    def finish(self, output: Any) -> Graph:
        """The graph being built, now complete: it returns `output` after all its effects."""
        node = self.node_of(output)
        effects = self._effects.get(id(self.graph), [])
        self.graph.output = self.graph.apply(depend, node, *effects) if effects else node
        return self.graph

    def where(self) -> Where:
        """The running cell and the line of user code (outside the engine) that is running."""
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(_ENGINE):
            frame = frame.f_back  # type: ignore[assignment]
        site = self._site[-1] if self._site else ""
        return Where(site, frame.f_code.co_filename, frame.f_lineno) if frame is not None else Where(site)
