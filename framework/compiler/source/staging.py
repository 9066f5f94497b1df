"""The capture that an interpreter of source code works on: graphs inside graphs, and paths that split and meet.

`explore` runs a piece of code inside a graph of its own and tells how it ends; a single end is continued with `resume`
while the others wait. Ends meet again by `converge`, `join` and `extend`.

What the ends have changed becomes what the closed split returns; a plan for each place says of which leaves it is made.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from ...dtype import bool_
from ...ir import Abstract, Apply, ConstantNode, FunctionType, Graph, Node, OpaqueType, TupleType, Where
from ...ir.control_ops import Control, assign, depend, make_tuple, switch, tuple_getitem
from ...nn.cell import Cell
from ...primitive import Primitive
from ...specs import Spec
from ...tensor import Parameter as Weight
from ...tensor import Tensor
from ..capture import GraphCapture
from ..traced import CaptureError, TracedTensor
from .graph_effects import behind_barrier, raising
from .item_assignment import SHARING, Elements
from .paths import (
    NEXT,
    WHOLE,
    Dead,
    End,
    Flow,
    Heap,
    Jump,
    PathChanges,
    PathSplit,
    Raise,
    Return,
    Slot,
    Variables,
    changed_slots,
    compose,
    read,
    write,
)
from .traced_numbers import Gap, TracedNumber, TracedText
from .value_plans import MISSING, Leaf, Plan, extract, freeze, rebuild, types_of, unify

__all__ = ["ResultNeeded", "SourceCapture", "check_content", "converge", "extend", "join"]

#: What stands in the place of the last effect before there is one.
_NOTHING = ConstantNode(Tensor(np.zeros(0, np.bool_)))


class ResultNeeded(Exception):
    """A recursion needs to know what it returns; another branch will tell.

    Args:
        call: The one that is not known.
    """

    def __init__(self, call: object) -> None:
        super().__init__()
        self.call = call


class RunningFunction(Protocol):
    """An interpreted function that is running, as error messages and nodes name it."""

    line: int

    @property
    def file(self) -> str:
        """The file that defines the function."""


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
        self.frames: list[RunningFunction] = []
        self.raised: BaseException | None = None
        self.tries: list[Graph] = []
        self.barriers = 0
        self.recorded: list[Tensor] = []
        self.waiting: object = None
        self.differentiating = 0
        self.caller: Callable[..., object] | None = None
        self.acquaint: Callable[[Cell, str], object] | None = None
        self._parents: dict[Graph, Graph | None] = {self.root: None}

    # What the capture for all modes asks.

    def node_of(self, value: object) -> Node:
        """Return the node that stands for a value; text with traced values in it has none."""
        if isinstance(value, TracedTensor):
            return super().node_of(self.elements.current(value))
        return super().node_of(str(value) if isinstance(value, TracedText) else value)

    def apply(
        self, primitive: Primitive | Control, inputs: tuple[object, ...], attributes: dict[str, object]
    ) -> object:
        """Return the traced result of an operation."""
        result = super().apply(primitive, inputs, attributes)
        if primitive.name in SHARING:
            self.elements.note(inputs, result)
        return result

    def _weight(self, weight: Tensor) -> Node:
        node = super()._weight(weight)
        held = self.held.get(id(weight))
        return node if held is None else super().node_of(held)

    def assign(self, target: Tensor, data: object) -> None:
        """Give the weight the new value from here on; it is overwritten when the graph ends."""
        if not isinstance(target, Weight):
            raise CaptureError(f"only Parameters can be overwritten inside a compiled function, got {target!r}")
        value: Tensor = data if isinstance(data, TracedTensor) else self._constant(data, target)
        if value.shape != target.shape:
            raise CaptureError(f"cannot overwrite parameter '{target.name}' of {target.shape} with {value.shape}")
        if value.dtype != target.dtype:
            value = value.astype(target.dtype)
        super()._weight(target)
        self.heap.touch(self.held)
        self.held[id(target)] = value

    def _constant(self, data: object, target: Tensor) -> TracedTensor:
        if isinstance(data, Weight):
            return TracedTensor(self._weight(data))
        return TracedTensor(self.node_of(data if isinstance(data, Tensor) else Tensor(data, target.dtype)))

    # Effects. The last one is a value like others, an empty tensor: it is joined, carried by loops, given to graphs.

    def _effect(self, node: Node) -> Node:
        self.heap.touch(self.order)
        self.order["last"] = TracedTensor(self.graph.apply(depend, _NOTHING, node, where=node.where))
        return node

    def _after(self) -> list[Node]:
        effect = self.order["last"]
        assert isinstance(effect, TracedTensor)
        last = effect.node
        return [] if last is _NOTHING else [last]

    def _after_all(self) -> list[Node]:
        return self._after()

    def write_back(self) -> None:
        """Overwrite every weight that holds another value now when the graph runs."""
        held = {key: self.node_of(value) for key, value in self.held.items()}
        for key, node in held.items():
            if node is not self._weights[key]:
                self._effect(self.graph.apply(assign, self._weights[key], node, *self._after(), where=self.where()))

    def construct(self, cell: Cell, inputs: tuple[object, ...], options: dict[str, object]) -> object:
        """Return what the cell computes; the `construct` of a user is interpreted too."""
        if self.acquaint is not None:
            self.acquaint(cell, self.cells.site)
        return self.call(cell.construct, inputs, options)

    def call(self, function: object, inputs: tuple[object, ...], options: dict[str, object]) -> object:
        """Return what a function returns that the interpreter calls."""
        assert self.caller is not None
        return self.caller(function, inputs, options)

    def where(self) -> Where:
        """Return the running cell and the line that is being interpreted."""
        site = self.cells.site
        if not self.frames:
            return Where(site)
        return Where(site, self.frames[-1].file, self.frames[-1].line)

    # Graphs inside graphs.

    def new_graph(self, name: str, parent: Graph) -> Graph:
        """Return a graph that may use the nodes of its parent and of those around that."""
        graph = Graph(name)
        self._parents[graph] = parent
        return graph

    def sees(self, graph: Graph) -> Callable[[Node], bool]:
        """Return whether a node may be used in the graph."""

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
        """Open a block whose changes are taken back when it fails."""
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
        """Return how code ends that starts in this graph: open ends, and the calls between the graphs it made."""
        with self.attempt():
            self.heap.push()
            outer, self.graph = self.graph, graph
            return self.settle(self.guarded(body), outer)

    def guarded(self, body: Callable[[], Flow]) -> Flow:
        """Return how code ends on one of several paths: what it raises, this path raises when the graph runs."""
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
        """Return the open ends of the path that has just run, which is suspended; `outer` is built on from here."""
        graph, self.graph = self.graph, outer
        changes = self.heap.suspend()
        if not isinstance(flow, PathSplit):
            return [End(flow, graph, changes)], []
        ends = [End(end.flow, end.graph, compose(changes, end.changes)) for end in flow.ends]
        return ends, [flow.start, *flow.jumps]

    def branch(self, condition: TracedNumber, true: Callable[[], Flow], false: Callable[[], Flow]) -> PathSplit:
        """Return both ways to go on from a condition, a traced bool."""
        graphs = (self.new_graph("if_true", self.graph), self.new_graph("if_false", self.graph))
        ends, jumps = self.explore(graphs[0], true)
        more_ends, more_jumps = self.explore(graphs[1], false)
        ends += more_ends
        if all(isinstance(end.flow, Raise) and end.flow.error is None for end in ends):
            raise ResultNeeded(self.waiting)
        start = Jump(self.graph, condition.node, graphs, (), self.where())
        return PathSplit(start, jumps + more_jumps, ends)

    def resume(self, end: End) -> None:
        """Continue the path from this end."""
        self.heap.resume(end.changes)
        self.graph = end.graph

    @contextmanager
    def resumed(self, end: End) -> Iterator[PathChanges]:
        """Open a block in which the state and the graph are those of an end."""
        outer, self.graph = self.graph, end.graph
        try:
            with self.heap.resumed(end.changes):
                yield end.changes
        finally:
            self.graph = outer

    def tuple_node(self, nodes: list[Node]) -> Node:
        """Return what a graph returns whose leaves are these."""
        return nodes[0] if len(nodes) == 1 else self.graph.apply(make_tuple, *nodes, where=self.where())

    def tuple_of(self, types: list[Abstract]) -> Abstract:
        """Return the type of several leaves together."""
        return _joined(types)

    def parts_of(self, whole: Node, count: int) -> list[Node]:
        """Return the nodes of the leaves that a call returned."""
        if count == 1:
            return [whole]
        return [self.graph.apply(tuple_getitem, whole, index=i, where=self.where()) for i in range(count)]


def _joined(types: list[Abstract]) -> Abstract:
    return types[0] if len(types) == 1 else TupleType(tuple(types))


def converge(capture: "SourceCapture", split: PathSplit, result: bool = False) -> object:
    """Close the split, apply what it changed, and with `result` return the value that all ends return.

    Every end must go on with the next line, or return, or raise.
    """
    slots, plans, values = _agree(capture, split.ends, split.start.graph, split.dead, result)
    type = capture.tuple_of([leaf for plan in plans for leaf in types_of(plan)])
    for end, row in zip(split.ends, values, strict=True):
        with capture.resumed(end):
            if isinstance(end.flow, Raise):
                end.graph.output = raising(capture, end.flow.error, type, capture._after())
                continue
            nodes = [node for plan, x in zip(plans, row, strict=True) for node in extract(plan, x, capture)]
            end.graph.output = capture.tuple_node(nodes)
    whole = _close(capture, split, type)
    return _spread(capture, slots, plans, whole)


def join(capture: "SourceCapture", ends: list[End], origin: Graph, dead: Dead) -> tuple[End, list[Jump]]:
    """Return one end in the place of several that go on with the next line, and the calls that lead there."""
    if len(ends) == 1:
        return ends[0], []
    graph = capture.new_graph("after", origin)
    slots, plans, values = _agree(capture, ends, origin, dead, result=False)
    parameters = [graph.add_parameter(type) for plan in plans for type in types_of(plan)]
    jumps = []
    for end, row in zip(ends, values, strict=True):
        with capture.resumed(end):
            nodes = [node for plan, x in zip(plans, row, strict=True) for node in extract(plan, x, capture)]
            jumps.append(Jump(end.graph, None, (graph,), tuple(nodes), capture.where()))
    outer = capture.graph
    capture.heap.push()
    capture.graph = graph
    nodes_in = iter(parameters)
    for slot, plan in zip(slots, plans, strict=True):
        write(capture.heap, slot, rebuild(plan, nodes_in, capture))
    (end,), _ = capture.settle(NEXT, outer)
    return end, jumps


def extend(capture: "SourceCapture", split: PathSplit, body: Callable[[], Flow]) -> PathSplit:
    """Return the split with the body run by those of its ends that go on with the next line."""
    going = [end for end in split.ends if end.flow is NEXT]
    if not going:
        return split
    end, jumps = join(capture, going, split.start.graph, split.dead)
    with capture.attempt():
        outer = capture.graph
        capture.resume(end)
        ends, more = capture.settle(capture.guarded(body), outer)
    others = [other for other in split.ends if other.flow is not NEXT]
    return PathSplit(split.start, [*split.jumps, *jumps, *more], [*others, *ends])


def _close(capture: "SourceCapture", split: PathSplit, type: Abstract) -> Node:
    """Return the node that has the result of the split, whose ends have their outputs, all of this type."""
    for jump in split.jumps:
        jump.graph.output = _called(jump, type)
    return _called(split.start, type)


def _agree(
    capture: "SourceCapture", ends: list[End], graph: Graph, dead: Dead, result: bool
) -> tuple[list[Slot], list[Plan], list[list[object]]]:
    """Return the places that change, the plan for each, and what stands there at each end; the result comes last."""
    going = [end for end in ends if not isinstance(end.flow, Raise)]
    places = changed_slots(end.changes for end in going)
    last = Slot(capture.order, "last")
    raises = any(isinstance(end.flow, Raise) and end.flow.error is not None for end in ends)
    if raises:  # who goes on has passed the place where others raise: that is an effect, too
        places[last.identity()] = last
    sees = capture.sees(graph)
    slots = [x for x in _relevant(list(places.values()), dead) if capture.elements.concerns(x, sees)]
    values: list[list[object]] = []
    for end in ends:
        with capture.resumed(end):
            row = [read(slot) for slot in slots]
        if result:
            row.append(freeze(end.flow.value) if isinstance(end.flow, Return) else None)
        values.append(row)
    rows = [row for end, row in zip(ends, values, strict=True) if not isinstance(end.flow, Raise)]
    columns = zip(*rows, strict=True) if rows else [[None]] * (len(slots) + result)
    plans = [unify(list(column), capture.sees(graph)) for column in columns]
    if raises and rows:
        plans[slots.index(last)] = Leaf(Spec((0,), bool_))
    for slot, plan in zip(slots, plans, strict=False):
        check_content(slot, plan)
    return slots, plans, values


def _relevant(slots: list[Slot], dead: Dead) -> list[Slot]:
    """Return the places whose value anyone can still ask for."""
    return [slot for slot in slots if not (slot.container is dead[0] and slot.key in dead[1])]


def check_content(slot: Slot, plan: Plan) -> None:
    """Raise if paths have left a list with different content: it cannot be one list."""
    value = getattr(plan, "value", None)
    if isinstance(value, Gap) and (slot.key is WHOLE or not isinstance(slot.container, Variables)):
        kind = type(slot.container).__name__
        what = f"key {slot.key!r} of a dict" if slot.key is not WHOLE else f"a {kind}"
        reason = value.reason if value is not MISSING else "is there on some paths only"
        raise CaptureError(
            f"{what} changed under a condition on traced values, and {reason}; "
            f"change it on both paths alike, or keep tensors and choose with ops.where"
        )


def _called(jump: Jump, type: Abstract) -> Node:
    taken = FunctionType(tuple(argument.type for argument in jump.arguments), type)
    targets = [ConstantNode(graph, taken) for graph in jump.targets]
    function: Node = targets[0]
    if jump.condition is not None:
        made = ConstantNode(switch, OpaqueType("Control"))
        function = Apply(jump.graph, [made, jump.condition, *targets], taken, None, jump.where)
    return Apply(jump.graph, [function, *jump.arguments], type, None, jump.where)


def _spread(capture: "SourceCapture", slots: list[Slot], plans: list[Plan], whole: Node) -> object:
    """Return the value of the last plan; those before are written to their places."""
    nodes = iter(capture.parts_of(whole, sum(len(types_of(plan)) for plan in plans)))
    values = [
        behind_barrier(capture, rebuild(plan, nodes, capture)) if types_of(plan) else rebuild(plan, nodes, capture)
        for plan in plans
    ]
    for slot, value in zip(slots, values, strict=False):
        write(capture.heap, slot, value)
    return values[-1] if len(values) > len(slots) else None
