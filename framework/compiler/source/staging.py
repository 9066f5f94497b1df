"""The capture that an interpreter of source code works on: graphs inside graphs, and paths that split and meet.

`explore` runs a piece of code inside a graph of its own and tells how it ends; a single end is continued with `resume`
while the others wait. How ends meet again stands in `meeting`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir import Abstract, Constant, Graph, Node, TupleType, Where
from ...ir.control import assign, depend, make_tuple, tuple_getitem
from ...tensor import Parameter as Weight
from ...tensor import Tensor
from ..capture import GraphCapture
from ..traced import CaptureError, TracedTensor
from .elements import SHARING, Elements
from .flow import End, Flow, Jump, Raise, Split
from .heap import Changes, Heap, compose
from .slots import Variables
from .unknown import TracedText

if TYPE_CHECKING:
    from .frame import Frame

__all__ = ["ResultNeeded", "SourceCapture"]


#: What stands in the place of the last effect before there is one.
_NOTHING = Constant(Tensor(np.zeros(0, np.bool_)))


class ResultNeeded(Exception):
    """A recursion needs to know what it returns; another branch will tell.

    Args:
        call: The one that is not known.
    """

    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call


class SourceCapture(GraphCapture):
    """Builds graphs while source code is interpreted.

    Attributes:
        heap: What has changed on the running path.
        elements: Tensors whose elements were assigned.
        held: What weights hold on it, where that is not their parameter.
        order: The last effect: prints, checks, random keys and calls of hooks keep their order by it.
        place: File and line that were interpreted last.
        frames: The functions that are running, innermost last.
        raised: The exception that the interpreted code itself has raised last.
        differentiating: How many functions are running whose graphs will be differentiated.
        barriers: How many results of control flow the tape could not go back through.
        recorded: The arguments that a backward pass may ask for.
        waiting: The recursive call whose result was last found to be not known.
        caller: How a function is called, set by the interpreter.
        acquaint: Told of every cell that is called, and its site.
        tries: The graphs in which the running `try` statements stand.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.heap = Heap()
        self.elements = Elements()
        self.held = Variables(lambda key: TracedTensor(self._weights[key]))
        self.order = Variables()
        self.order["last"] = TracedTensor(_NOTHING)
        self.place = ("", 0)
        self.frames: list[Frame] = []
        self.raised: BaseException | None = None
        self.tries: list[Graph] = []
        self.barriers = 0
        self.recorded: list[Tensor] = []
        self.waiting: Any = None
        self.differentiating = 0
        self.caller: Callable[..., Any] | None = None
        self.acquaint: Callable[[Any, str], Any] | None = None
        self._parents: dict[Graph, Graph | None] = {self.root: None}

    # What the capture for all modes asks.

    def node_of(self, value: Any) -> Node:
        """The node that stands for a value; text with traced values in it has none."""
        if isinstance(value, TracedTensor):
            return super().node_of(self.elements.current(value))
        return super().node_of(str(value) if isinstance(value, TracedText) else value)

    def apply(self, primitive: Any, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """The traced result of an operation."""
        result = super().apply(primitive, inputs, attributes)
        if primitive.name in SHARING:
            self.elements.note(inputs, result)
        return result

    def _weight(self, weight: Tensor) -> Node:
        node = super()._weight(weight)
        held = self.held.get(id(weight))
        return node if held is None else super().node_of(held)

    def assign(self, target: Tensor, data: Any) -> None:
        """Nothing; the weight holds the new value from here on, and is overwritten when the graph ends."""
        if not isinstance(target, Weight):
            raise CaptureError(f"only Parameters can be overwritten inside a compiled function, got {target!r}")
        value = data if isinstance(data, TracedTensor) else self._constant(data, target)
        if value.shape != target.shape:
            raise CaptureError(f"cannot overwrite parameter '{target.name}' of {target.shape} with {value.shape}")
        if value.dtype != target.dtype:
            value = value.astype(target.dtype)
        super()._weight(target)
        self.heap.touch(self.held)
        self.held[id(target)] = value

    def _constant(self, data: Any, target: Tensor) -> Any:
        if isinstance(data, Weight):
            return TracedTensor(self._weight(data))
        return TracedTensor(self.node_of(data if isinstance(data, Tensor) else Tensor(data, target.dtype)))

    # Effects. The last one is a value like others, an empty tensor: it is joined, carried by loops, given to graphs.

    def _effect(self, node: Node) -> Node:
        self.heap.touch(self.order)
        self.order["last"] = TracedTensor(self.graph.apply(depend, _NOTHING, node, where=node.where))
        return node

    def _after(self) -> list[Node]:
        last = self.order["last"].node
        return [] if last is _NOTHING else [last]

    def _after_all(self) -> list[Node]:
        return self._after()

    def write_back(self) -> None:
        """Nothing; every weight that holds another value now is overwritten when the graph runs."""
        held = {key: self.node_of(value) for key, value in self.held.items()}
        for key, node in held.items():
            if node is not self._weights[key]:
                self._effect(self.graph.apply(assign, self._weights[key], node, *self._after(), where=self.where()))

    def construct(self, cell: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """What the cell computes; the `construct` of a user is interpreted too."""
        if self.acquaint is not None:
            self.acquaint(cell, self.cells.site)
        return self.call(cell.construct, inputs, options)

    def call(self, function: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """What a function returns that the interpreter calls."""
        assert self.caller is not None
        return self.caller(function, inputs, options)

    def where(self) -> Where:
        """The running cell and the line that is being interpreted."""
        site = self.cells.site
        if not self.frames:
            return Where(site)
        return Where(site, self.frames[-1].file, self.frames[-1].line)

    # Graphs inside graphs.

    def new_graph(self, name: str, parent: Graph) -> Graph:
        """A graph that may use the nodes of its parent and of those around that."""
        graph = Graph(name)
        self._parents[graph] = parent
        return graph

    def sees(self, graph: Graph) -> Callable[[Node], bool]:
        """Whether a node may be used in the graph."""

        def visible(node: Node) -> bool:
            around: Graph | None = graph
            while around is not None:
                if node.graph is around:
                    return True
                around = self._parents[around]
            return node.graph is None

        return visible

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """A block whose changes are taken back when it fails."""
        depth, graph, calls, level = len(self.heap.layers), self.graph, dict(self.cells.calls), self.differentiating
        frames, keys, tries = len(self.frames), len(self._keys), len(self.tries)
        try:
            yield
        except BaseException:
            self.heap.discard(depth)
            self.graph, self.cells.calls, self.differentiating = graph, calls, level
            del self.frames[frames:], self.tries[tries:]
            for parameter, _ in self._keys[keys:]:
                self.root.parameters.remove(parameter)
            del self._keys[keys:]
            raise

    # Paths.

    def explore(self, graph: Graph, body: Callable[[], Flow]) -> tuple[list[End], list[Jump]]:
        """How code ends that starts in this graph: open ends, and the calls between the graphs it made."""
        with self.attempt():
            self.heap.push()
            outer, self.graph = self.graph, graph
            return self.settle(self.guarded(body), outer)

    def guarded(self, body: Callable[[], Flow]) -> Flow:
        """How code ends on one of several paths: what it raises, this path raises when the graph runs."""
        depth, graph = len(self.heap.layers), self.graph
        frames, tries = len(self.frames), len(self.tries)
        try:
            return body()
        except ResultNeeded as needed:
            flow, self.waiting = Raise(None), needed.call
        except Exception as error:
            if error is not self.raised:
                raise
            flow = self._raise_later(error)
        self.heap.discard(depth)
        self.graph = graph
        del self.frames[frames:], self.tries[tries:]
        return flow

    def _raise_later(self, error: Exception) -> Raise:
        if self.tries:
            raise CaptureError(
                f"{type(error).__name__} is raised under a condition on traced values inside a try statement; "
                f"a graph cannot catch it: test the condition outside of the try"
            ) from error
        return Raise(error)

    def settle(self, flow: Flow, outer: Graph) -> tuple[list[End], list[Jump]]:
        """The open ends of the path that has just run, which is suspended; `outer` is built on from here."""
        graph, self.graph = self.graph, outer
        changes = self.heap.suspend()
        if not isinstance(flow, Split):
            return [End(flow, graph, changes)], []
        ends = [End(end.flow, end.graph, compose(changes, end.changes)) for end in flow.ends]
        return ends, [flow.start, *flow.jumps]

    def branch(self, condition: Any, true: Callable[[], Flow], false: Callable[[], Flow]) -> Split:
        """Both ways to go on from a condition, a traced bool."""
        graphs = (self.new_graph("if_true", self.graph), self.new_graph("if_false", self.graph))
        ends, jumps = self.explore(graphs[0], true)
        more_ends, more_jumps = self.explore(graphs[1], false)
        ends += more_ends
        if all(isinstance(end.flow, Raise) and end.flow.error is None for end in ends):
            raise ResultNeeded(self.waiting)
        start = Jump(self.graph, condition.node, graphs, (), self.where())
        return Split(start, jumps + more_jumps, ends)

    def resume(self, end: End) -> None:
        """Nothing; the path goes on from this end."""
        self.heap.resume(end.changes)
        self.graph = end.graph

    @contextmanager
    def resumed(self, end: End) -> Iterator[Changes]:
        """A block in which the state and the graph are those of an end."""
        outer, self.graph = self.graph, end.graph
        try:
            with self.heap.resumed(end.changes):
                yield end.changes
        finally:
            self.graph = outer

    def tuple_node(self, nodes: list[Node]) -> Node:
        """What a graph returns whose leaves are these."""
        return nodes[0] if len(nodes) == 1 else self.graph.apply(make_tuple, *nodes, where=self.where())

    def tuple_of(self, types: list[Abstract]) -> Abstract:
        """The type of several leaves together."""
        return _joined(types)

    def parts_of(self, whole: Node, count: int) -> list[Node]:
        """The nodes of the leaves that a call returned."""
        if count == 1:
            return [whole]
        return [self.graph.apply(tuple_getitem, whole, index=i, where=self.where()) for i in range(count)]


def _joined(types: list[Abstract]) -> Abstract:
    return types[0] if len(types) == 1 else TupleType(tuple(types))
