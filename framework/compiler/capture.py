"""Capture: while one is active, primitives become nodes of a graph instead of being computed.

All capture modes share it. What they differ in is who runs the code: Python itself (trace), an interpreter of its
syntax tree (ast), or of its bytecode. A capture knows

    the graph that is being built       weights that are met become its last parameters, other tensors constants
    effects so far                      assignments, calls of hooks: they keep their order
    keys and actions                    random keys are taken before each run of the graph and are arguments of it;
                                        updates by an optimizer are made after each run, from values that it returns
    the cells that are running          every node has a site, every output of a cell a mark
    guards                              what Python held outside of the arguments
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ..context import CAPTURE, RECORDING, quiet
from ..errors import EngineError
from ..ir import Abstract, Apply, ConstantNode, Graph, Node, OpaqueType, ParameterNode, TupleType, Where, type_of
from ..ir.control_ops import Control, assign, depend, host_call, make_tuple, take_key, tuple_getitem
from ..nn.cell import Cell
from ..nn.cell_call import Gates
from ..primitive import PRIMITIVES, Primitive
from ..random import Key, next_key
from ..specs import Spec
from ..tape import BACKWARD_START
from ..tensor import Parameter as Weight
from ..tensor import Tensor
from .captured_cells import ForwardHooks, RunningCells, has_backward_hooks, hooks_of, shown_leaves
from .captured_graph import Action, Captured, SetGrad
from .guards import Guard, OutsideValues
from .signature import Leaf, Signature, flatten
from .traced import CaptureError, TracedKey, TracedTensor

__all__ = ["GraphCapture", "trace"]


class Snapshot(NamedTuple):
    """What a capture goes back to when an instruction cannot become part of the graph.

    Attributes:
        keys: Number of random keys.
        actions: Number of actions.
        guards: Number of guards.
        depth: Number of running cells.
        effects: The effects of each graph so far, by its identity.
        values: What the weights hold.
        calls: Number of calls of each cell.
        graph: That nodes are added to.
    """

    keys: int
    actions: int
    guards: int
    depth: int
    effects: dict[int, list[Node]]
    values: dict[int, Node]
    calls: dict[int, int]
    graph: Graph


_ENGINE = str(Path(__file__).parents[1])


class GraphCapture:
    """Builds one outermost graph and the graphs inside it.

    Attributes:
        graph: The graph that nodes are added to now.
        root: The outermost one.
        values: What weights hold at this point of the program: their parameter, or the last value assigned.
        guards: What was read outside of the arguments.
    """

    def __init__(self, name: str) -> None:
        self.root = self.graph = Graph(name)
        self.values: dict[int, Node] = {}
        self._weights: dict[int, ParameterNode] = {}
        self._kept: list[object] = []  # what is known by id stays alive
        self._effects: dict[int, list[Node]] = {}
        self._keys: list[tuple[ParameterNode, Callable[[], Key]]] = []
        self._actions: list[tuple[Callable[..., object], list[Node]]] = []
        self._cut: dict[Node, Node] = {}
        self.cells = RunningCells()
        self._grads: dict[int, tuple[Tensor, Tensor | None]] = {}  # leaves and their .grad before
        self.guards: list[Guard] = []

    @contextmanager
    def active(self) -> Iterator["GraphCapture"]:
        """Open a block in which primitives are captured."""
        token = CAPTURE.set(self)
        try:
            yield self
        finally:
            CAPTURE.reset(token)
            for leaf, grad in self._grads.values():
                leaf._grad = grad

    @contextmanager
    def inside(self, graph: Graph) -> Iterator[Graph]:
        """Open a block whose nodes belong to `graph`, an inner one that may use nodes of those around it."""
        outer, self.graph = self.graph, graph
        try:
            yield graph
        finally:
            self.graph = outer

    # Values in and out.

    def node_of(self, value: object) -> Node:
        """Return the node that stands for a value: a traced one's own, a weight's parameter, or a constant."""
        if isinstance(value, TracedTensor):
            return self._seen_by_gradients(value)
        if isinstance(value, TracedKey):
            return value.node
        if isinstance(value, Weight) or (isinstance(value, Tensor) and value.requires_grad):
            return self._weight(value)
        if isinstance(value, tuple | list):
            return self.graph.apply(make_tuple, *(self.node_of(part) for part in value), where=self.where())
        if isinstance(value, Tensor):
            self._kept.append(value)
        return ConstantNode(value)

    def value_of(self, node: Node) -> object:
        """Return what running code sees of a node: a traced tensor, a traced key, a tuple of such, or a constant's
        value."""
        if isinstance(node.type, TupleType):
            parts = range(len(node.type.elements))
            if isinstance(node, Apply) and node.applies("make_tuple"):
                return tuple(self.value_of(part) for part in node.arguments)
            return tuple(self.value_of(self.graph.apply(tuple_getitem, node, index=part)) for part in parts)
        if isinstance(node, ConstantNode):
            return node.value
        if getattr(node.type, "kind", None) == Key.__name__:
            return TracedKey(node)
        traced = TracedTensor(node)
        traced.is_cut = not RECORDING.get()
        return traced

    def _seen_by_gradients(self, value: TracedTensor) -> Node:
        """Return the node of a traced tensor; one that was made where nothing is recorded lets no gradient through."""
        if not value.is_cut or not RECORDING.get() or not isinstance(value.node, Apply):
            return value.node
        if value.node not in self._cut:
            home = value.node.graph or self.graph
            self._cut[value.node] = home.apply(PRIMITIVES["stop_gradient"], value.node, where=value.node.where)
        return self._cut[value.node]

    def _weight(self, weight: Tensor) -> Node:
        if self._actions:
            raise CaptureError(
                f"parameter '{getattr(weight, 'name', '')}' is used after an optimizer made its step in the same "
                f"compiled function ({self.where()}); its new values are only there when the function has ended: "
                f"compile two functions"
            )
        if id(weight) not in self._weights:
            parameter = self.root.add_parameter(type_of(weight), getattr(weight, "name", ""), weight)
            self._weights[id(weight)] = parameter
            self.guards.append(_guard_of_hooks(weight))
            self.values.setdefault(id(weight), parameter)
        return self.values[id(weight)]

    # The protocol of `context.Capture`.

    def apply(
        self, primitive: Primitive | Control, inputs: tuple[object, ...], attributes: dict[str, object]
    ) -> object:
        """Return the traced result of an operation."""
        where = self.where()
        nodes = [self.node_of(x) for x in inputs]
        try:
            node = self.graph.apply(primitive, *nodes, where=where, **attributes)
        except EngineError as error:
            types = ", ".join(_described(node.type) for node in nodes)
            message = str(error).removeprefix(f"'{primitive.name}' cannot take ")
            raise type(error)(f"'{primitive.name}' cannot take {types}, at {where}: {message}") from error
        return self.value_of(node)

    def assign(self, target: Tensor, data: object) -> None:
        """Let the graph overwrite a weight in place; reads from here on see the new value."""
        if not isinstance(target, Weight):
            raise CaptureError(
                f"only Parameters can be overwritten inside a compiled function, got a {type(target).__name__} of "
                f"shape {target.shape} ({self.where()}); make a new tensor, or keep it in a Parameter"
            )
        value = self.node_of(data)
        self._weight(target)
        node = self.graph.apply(assign, self._weights[id(target)], value, *self._after(), where=self.where())
        self.values[id(target)] = self._effect(node)

    def next_key(self) -> Key:
        """Return a key that every call of the graph takes anew."""
        return self.draw_key(next_key)

    def draw_key(self, source: Callable[[], Key]) -> Key:
        """Return a key that `source` gives anew for every call of the graph."""
        if self.graph is not self.root:
            if source is next_key:
                return TracedKey(self._effect(self.graph.apply(take_key, *self._after(), where=self.where())))
            (key,) = self.host(source, (), (_KEY,))
            return key  # type: ignore[no-any-return]
        parameter = self.root.add_parameter(_KEY, f"key{len(self._keys)}")
        self._keys.append((parameter, source))
        return TracedKey(parameter)

    def host(self, function: Callable[..., object], values: tuple[object, ...], types: tuple[Abstract, ...]) -> Any:
        """Return the traced results, of those types, of a Python function that the graph calls with arrays of the
        values."""
        nodes = [self.node_of(x) for x in values]
        attributes = {"function": function, "types": types, "count": len(nodes)}
        node = self.graph.apply(host_call, *nodes, *self._after(), where=self.where(), **attributes)
        return self.value_of(self._effect(node))

    def touch_grad(self, leaf: Tensor, is_overwritten: bool = False) -> None:
        """Let every run leave the `.grad` of the leaf as it is at the end of the capture."""
        if isinstance(leaf, TracedTensor) or id(leaf) in self._grads:
            return
        if leaf._grad is not None and not is_overwritten:
            raise CaptureError(
                f"backward() inside a compiled function would add to the gradient that '{getattr(leaf, 'name', '')}' "
                f"had before ({self.where()}); call zero_grad() first, inside the function or before its first call"
            )
        self._grads[id(leaf)] = (leaf, leaf._grad)

    def act(self, function: Callable[..., object], values: tuple[object, ...]) -> None:
        """Call the function with tensors of these values after each run of the graph."""
        if self.graph is not self.root:
            raise CaptureError(
                f"a step of an optimizer stands inside a branch or loop over tensors ({self.where()}); "
                f"make the step unconditional, or decide outside of the compiled function"
            )
        self._actions.append((function, [self.node_of(x) for x in values]))

    def call_cell(self, cell: Cell, inputs: tuple[object, ...], options: dict[str, object]) -> object:
        """Return the traced output of a cell, its tensors marked, its hooks called when the graph runs."""
        with self.cells.inside(cell) as site:
            before, after = hooks_of(cell)
            if before:
                self._call_hooks(cell, "forward_pre", site, (inputs,))
            hooks = cell._cell_hooks
            gates = Gates(cell, hooks) if hooks is not None and has_backward_hooks(cell) else None
            entering = inputs if gates is None else gates.enter(inputs)
            output = self.construct(cell, entering, options)
            if gates is not None:
                output = gates.leave(output)
            if after:
                self._call_hooks(cell, "forward", site, (inputs, output))
            return self.cells.marked(cell, output)

    def _call_hooks(self, cell: Cell, kind: str, site: str, shown: tuple[object, ...]) -> None:
        leaves, structure = shown_leaves(shown)
        self.host(ForwardHooks(cell, kind, structure, site), tuple(leaves), ())

    # For captures that interpret code: cells that they go into themselves, and a way back from what failed.

    def meet(self, cell: Cell) -> None:
        """Guard what the cell holds."""
        self.cells.meet(cell)

    def enter_cell(self, cell: Cell) -> None:
        """Make the cell the running one."""
        self.cells.enter(cell)

    def leave_cell(self, cell: Cell, output: object) -> object:
        """Return the output of the running cell, marked; the one around it runs again."""
        marked = self.cells.marked(cell, output)
        self.cells.leave(self.cells.depth - 1)
        return marked

    def snapshot(self) -> Snapshot:
        """Return what `restore` goes back to."""
        effects = {key: list(nodes) for key, nodes in self._effects.items()}
        return Snapshot(
            keys=len(self._keys),
            actions=len(self._actions),
            guards=len(self.guards),
            depth=self.cells.depth,
            effects=effects,
            values=dict(self.values),
            calls=dict(self.cells.calls),
            graph=self.graph,
        )

    def restore(self, before: Snapshot) -> None:
        """Forget effects, keys and actions since the snapshot."""
        self._effects, self.values, self.graph = before.effects, before.values, before.graph
        self.cells.calls = before.calls
        for parameter, _ in self._keys[before.keys :]:
            self.root.parameters.remove(parameter)
        for weight, parameter in self._weights.items():
            self.values.setdefault(weight, parameter)
        del self._keys[before.keys :], self._actions[before.actions :], self.guards[before.guards :]
        self.cells.leave(before.depth)

    def construct(self, cell: Cell, inputs: tuple[object, ...], options: dict[str, object]) -> object:
        """Return what the cell computes; a capture that interprets code overrides this."""
        return cell.construct(*inputs, **options)

    def pull_back(
        self,
        composition: Callable[..., object],
        needs: Sequence[bool],
        g: object,
        inputs: Sequence[object],
        attributes: dict[str, object],
    ) -> Sequence[object]:
        """Raise: rules are captured by the differentiation of graphs."""
        raise CaptureError("a rule of differentiation ran inside a captured function; use grad, which transforms it")

    # Effects.

    def _effect(self, node: Node) -> Node:
        self._effects.setdefault(id(self.graph), []).append(node)
        return node

    def _after(self) -> list[Node]:
        """Return the effect that the next one has to follow."""
        return self._effects.get(id(self.graph), [])[-1:]

    def finish(self, output: object) -> Graph:
        """Return the graph being built, now complete: it returns `output` after all its effects."""
        node = self.node_of(output)
        effects = self._effects.get(id(self.graph), [])
        self.graph.output = self.graph.apply(depend, node, *effects) if effects else node
        return self.graph

    def complete(self, output: object) -> Captured:
        """Return the whole capture, its outermost graph finished: it returns all tensors in `output`.

        Raises:
            CaptureError: Attributes of cells changed meanwhile.
        """
        self.cells.state.check()
        leaves: list[Leaf] = []
        structure = flatten(output, leaves)
        self._actions[:0] = self._grads_to_set()
        nodes = [self.node_of(leaf) for leaf in leaves] + [node for _, given in self._actions for node in given]
        effects = self._after_all()
        whole = self.root.apply(make_tuple, *nodes)
        self.root.output = self.root.apply(depend, whole, *effects) if effects else whole
        keys = [parameter for parameter, _ in self._keys]
        arguments = [x for x in self.root.parameters if x.weight is None and x not in keys]
        self.root.parameters[:] = [*arguments, *keys, *self.root.weights]
        guards = (*self.guards, *self.cells.state.guards(), *_guards_of_hooks())
        actions = tuple(Action(function, len(given)) for function, given in self._actions)
        return Captured(self.root, structure, guards, tuple(source for _, source in self._keys), actions)

    def _grads_to_set(self) -> Iterator[tuple[Callable[..., object], list[Node]]]:
        for leaf, _ in self._grads.values():
            given = [] if leaf._grad is None else [self.node_of(leaf._grad)]
            yield SetGrad(leaf), given

    def _after_all(self) -> list[Node]:
        return self._effects.get(id(self.root), [])

    def where(self) -> Where:
        """Return the running cell and the line of user code (outside the engine) that is running."""
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(_ENGINE):
            frame = frame.f_back  # type: ignore[assignment]
        site = self.cells.site
        return Where(site, frame.f_code.co_filename, frame.f_lineno) if frame is not None else Where(site)


def _guard_of_hooks(leaf: Tensor) -> Guard:
    """Return a guard on whether the gradient of a leaf has hooks."""
    what = f"hooks on the gradient of '{getattr(leaf, 'name', '')}'"
    return Guard(what, "call", lambda: bool(leaf._hooks), what, bool(leaf._hooks), by_cell=True)


def _guards_of_hooks() -> Iterator[Guard]:
    yield Guard(
        "hooks on the start of a backward pass", "call", lambda: bool(BACKWARD_START), "", bool(BACKWARD_START), True
    )


_KEY = OpaqueType(Key.__name__)


def _described(type: Abstract) -> str:
    """Return a type as messages write it."""
    return f"{type.shape} {type.dtype}" if isinstance(type, Spec) else str(type)


def trace(fn: Callable[..., object], signature: Signature) -> Captured:
    """Return the graph of a function for arguments of this signature.

    Globals and closures of the function, and of the functions of its module that it names, are guarded where they are
    simple values, and so are the attributes of the cells that it calls. Attributes of other objects are not seen.

    Raises:
        CaptureError: Values of a tensor are needed, or Python's state changed.
    """
    capture = GraphCapture(getattr(fn, "__name__", type(fn).__name__))
    outside = OutsideValues(fn)
    arguments, options = signature.fill(traced_arguments(capture, signature))
    with capture.active(), quiet():
        output = fn(*arguments, **options)
        outside.check()
        capture.guards += outside.guards
        return capture.complete(output)


def traced_arguments(capture: GraphCapture, signature: Signature) -> list[TracedTensor | TracedKey]:
    """Return what stands for the tensors and keys of the arguments: new parameters of the outermost graph."""
    traced: list[TracedTensor | TracedKey] = []
    for number, (type, needs) in enumerate(zip(signature.specs, signature.needs, strict=True)):
        node = capture.root.add_parameter(type, f"x{number}")
        if isinstance(type, OpaqueType):
            traced.append(TracedKey(node))
            continue
        tensor = TracedTensor(node)
        tensor.requires_grad = needs
        traced.append(tensor)
    return traced
