"""From a straight-line graph to the source of a Python function that fills planned buffers.

    def bind(constants, buffers, weights):      once
        v7 = w2.transpose((1, 0))               what is the same at every call: views of weights and buffers
        def run(x0, x1):
            matmul(x0, v7, b3)                  one line for each primitive or kernel
            k0(b3, w1)                          a fused kernel, here in place
            ...
            return v12

An array that is returned is allocated anew at every call, so the caller may keep it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from ...compiler.passes.fuse import Fused
from ...compiler.passes.memory_passes import schedule
from ...ir import Apply, ConstantNode, Graph, Node, TupleType, Where
from ...ir.control_ops import Control
from ...primitive import Primitive
from ...specs import Spec
from ...tensor import Array
from .fused_loops import FusedLoop, kernel_of, loop_of
from .into import INTO, Into
from .memory_plan import Buffer, Lifetimes, Value, is_multipliable, layout_of, owners_of, plan_memory, proxy
from .program_text import Assignments, Lowered, ProgramScope, ResultMemory

__all__ = ["VIEWS", "Kernels", "lower", "no_kernel", "planned_bytes", "smaller_order", "view_source"]

#: `function(array, **attributes)`: the array seen otherwise, or a tuple of such; a copy where it cannot be seen so.
VIEWS: dict[str, Callable[..., Array | tuple[Array, ...]]] = {
    "identity": lambda x: x,
    "stop_gradient": lambda x: x,
    "reshape": lambda x, *, shape: x.reshape(shape),
    "transpose": lambda x, *, axes: x.transpose(axes),
    "swapaxes": lambda x, *, first, second: x.swapaxes(first, second),
    "broadcast_to": lambda x, *, shape: np.broadcast_to(x, shape),
    "split": lambda x, *, sizes, axis: tuple(x[cut] for cut in _cuts(sizes, axis)),
}


def _cuts(sizes: tuple[int, ...], axis: int) -> list[tuple[slice, ...]]:
    ends = np.cumsum(sizes).tolist()
    return [(*(slice(None),) * axis, slice(end - size, end)) for size, end in zip(sizes, ends, strict=True)]


def view_source(name: str, base: str, before: Array, after: Array, attributes: Mapping[str, Any]) -> str | None:
    """Return Python source of the view where it is short, else None: `before` seen as `after`."""
    if name in ("identity", "stop_gradient"):
        return base
    if name == "reshape":
        return f"{base}.reshape({tuple(after.shape)!r})"
    if name == "transpose":
        return f"{base}.transpose({tuple(attributes['axes'])!r})"
    if name == "swapaxes":
        return f"{base}.swapaxes({attributes['first']}, {attributes['second']})"
    if name == "broadcast_to":
        return f"broadcast_to({base}, {tuple(after.shape)!r})"
    return None


#: What makes the kernel of a loop, given which outputs lie in which inputs and how its arrays are laid out.
Kernels: TypeAlias = Callable[[FusedLoop, Mapping[int, int], Sequence[tuple[str, int]]], Callable[..., None]]


def smaller_order(
    order: Sequence[Apply],
    result: Node,
    is_view: Callable[[Apply], bool],
    lowered: Callable[[Sequence[Apply]], Lowered],
) -> Sequence[Apply]:
    """Return the given order itself, or the scheduled one where its planned memory is smaller.

    Args:
        order: An order that works.
        result: What is returned.
        is_view: Whether an application may lie in the memory of its arguments.
        lowered: The code for an order; only its memory is looked at.
    """
    other = schedule(order, result, is_view)
    if other == tuple(order):
        return order
    return other if planned_bytes(lowered(other)) < planned_bytes(lowered(order)) else order


def planned_bytes(lowered: Lowered) -> int:
    """Return the bytes that a call takes: the common block, and the results."""
    results = sum(b.nbytes for b in lowered.buffers if b.kind == "output")
    return plan_memory([b for b in lowered.buffers if b.kind == "planned"], results).size + results


def no_kernel(loop: FusedLoop, in_place: Mapping[int, int], layouts: Sequence[tuple[str, int]]) -> Callable[..., None]:
    """Return a stand-in for a kernel, for plans of memory only: kernels take long to compile."""
    del in_place, layouts

    def never(*_: object) -> None:
        raise AssertionError(f"the plan of {loop.fused.name} is not to be run")

    return never


def lower(
    graph: Graph, order: Sequence[Apply], is_bound: Sequence[bool], given: dict[int, Array] | None = None
) -> Lowered:
    """Return the source of a graph without control flow.

    Args:
        graph: What to compute.
        order: Its applications in an order that works; they are computed in it or, where that takes less memory,
            in the one that `schedule` makes of it.
        is_bound: For each parameter whether its array is the same at every call.
        given: Arrays that outputs are to be written to, by number of the output.
    """

    def lowering(order: Sequence[Apply], kernels: Kernels = kernel_of) -> _Lowering:
        return _Lowering(graph, order, is_bound, given or {}, kernels)

    first = lowering(order)
    best = smaller_order(order, graph.result, first.is_view, lambda order: lowering(order, no_kernel).run())
    return (first if best is order else lowering(best)).run()


class _Lowering:
    """One graph being lowered."""

    def __init__(
        self, graph: Graph, order: Sequence[Apply], is_bound: Sequence[bool], given: dict[int, Array], kernels: Kernels
    ) -> None:
        self._graph, self._order, self._kernels = graph, order, kernels
        self._how = {node: _entry(node) for node in order}
        self._scope = ProgramScope(Lifetimes(order, graph.result, self.is_view))
        self._memory = ResultMemory(self._scope, graph.result, given)
        self._assignments = Assignments(self._scope)
        for i, (parameter, bound) in enumerate(zip(graph.parameters, is_bound, strict=True)):
            self._scope.add_parameter(i, parameter, bound)

    def run(self) -> Lowered:
        """Return the lowered graph."""
        for place, node in enumerate(self._order):
            self._scope.place = place
            function = node.inputs[0]
            name = getattr(function.value, "name", "") if isinstance(function, ConstantNode) else ""
            self._scope.code.where = (name, node.where)
            self._scope.set(node, self._apply(node))
        self._scope.place = len(self._order)
        self._scope.code.where = ("return", Where())
        result = self._memory.result(self._scope.value(self._graph.result), self._graph.result, top=True)
        self._assignments.flush()
        self._scope.code.made.result = result.name
        return self._scope.code.made

    def is_view(self, node: Apply) -> bool:
        """Return whether the result may lie in the memory of the arguments."""
        function = node.inputs[0]
        if not isinstance(function, ConstantNode) or isinstance(function.value, Fused):
            return False
        return self._how[node] is None

    def _apply(self, node: Apply) -> Value:
        function = node.inputs[0]
        if not isinstance(function, ConstantNode):
            raise TypeError(f"{node!r} applies what is not known when it is compiled")
        what = function.value
        if isinstance(what, Fused):
            return self._fused(node, what)
        if isinstance(what, Control):
            return self._control(node, what)
        if not isinstance(what, Primitive):
            raise TypeError(f"{node!r} applies {what!r}, which is neither a primitive nor a kernel")
        if what.name in VIEWS:
            found = self._view(node, what.name)
            if found is not None:
                return found
        how = self._how[node]
        return self._evaluate(node, what) if how is None else self._into(node, how)

    def _view(self, node: Apply, name: str) -> Value | None:
        """Return the argument seen otherwise, or None where that needs a copy."""
        base = self._scope.value(node.arguments[0])
        if base.array is None:
            return None
        seen = VIEWS[name](base.array, **node.attributes)
        if isinstance(seen, tuple):
            function, attributes = (self._scope.code.constant(x) for x in (VIEWS[name], dict(node.attributes)))
            return self._split(base, f"{function}({base.name}, **{attributes})", seen)
        if seen.size and not np.may_share_memory(seen, base.array):
            return None
        source = view_source(name, base.name, base.array, seen, node.attributes)
        assert source is not None
        return self._scope.code.seen_as(base, source, seen)

    def _split(self, base: Value, call: str, seen: tuple[Array, ...]) -> Value:
        whole = self._scope.code.seen_as(base, call, seen[0])
        parts = tuple(Value(f"{whole.name}[{i}]", array, base.owners, base.is_static) for i, array in enumerate(seen))
        if base.is_static:
            parts = tuple(
                self._scope.code.seen_as(part, f"({part.name})", array) for part, array in zip(parts, seen, strict=True)
            )
        return Value(whole.name, parts=parts)

    def _evaluate(self, node: Apply, primitive: Primitive) -> Value:
        """Return a call of the primitive's own evaluation, which allocates its result."""
        arguments = [self._scope.value(x) for x in node.arguments]
        name = self._scope.code.new("e")
        text = f"{self._scope.code.constant(primitive.evaluate)}({self._call(arguments, node)})"
        outputs = node.type.elements if isinstance(node.type, TupleType) else None
        if outputs is None:
            text = f"asarray({text})"
        self._scope.code.line(f"{name} = {text}", *arguments)
        owners = owners_of(arguments)  # it may be a view of them
        if outputs is None:
            assert isinstance(node.type, Spec)
            return self._fresh(name, node.type, owners)
        parts = [self._fresh(f"{name}[{i}]", spec, owners) for i, spec in enumerate(outputs) if isinstance(spec, Spec)]
        return Value(name, parts=tuple(parts))

    def _fresh(self, name: str, spec: Spec, owners: tuple[Buffer, ...]) -> Value:
        """Return an allocated result in C order, so that its strides are known."""
        held = self._scope.code.new("f")
        self._scope.code.line(f"{held} = {name}")
        self._scope.code.line(
            f"if not {held}.flags.c_contiguous: {held} = ascontiguousarray({held}).reshape({spec.shape!r})"
        )
        return Value(held, proxy(spec.shape, spec.dtype), owners)

    def _call(self, arguments: Sequence[Value], node: Apply) -> str:
        extra = [f"**{self._scope.code.constant(dict(node.attributes))}"] if node.attributes else []
        return ", ".join([*(x.name for x in arguments), *extra])

    def _into(self, node: Apply, how: Into) -> Value:
        """Return a line that computes the primitive into a buffer."""
        inputs = [
            self._scope.handed(self._fitting(self._scope.value(x), how, node), shape, how.is_strided)
            for x, shape in zip(node.arguments, how.inputs, strict=True)
        ]
        specs = _specs(node)[1]
        over = self._memory.overwritten(node, how.over, specs[0]) if len(specs) == 1 else None
        orders = how.orders or (None,) * len(specs)
        outs = (
            [over] if over is not None else [self._memory.ordered(s, (node, k), orders[k]) for k, s in enumerate(specs)]
        )
        scratch = [self._scope.code.buffer(spec) for spec in how.scratch]
        handed = [
            self._scope.code.reshaped(out, shape) if shape is not None else out
            for out, shape in zip(outs, how.outputs, strict=True)
        ]
        names = ", ".join(x.name for x in (*inputs, *handed, *scratch))
        text = f"{self._scope.code.constant(how.run)}({names})"
        if how.prepare is not None and all(x.is_static for x in (*inputs, *handed, *scratch)):
            prepared = self._scope.code.new("p")
            self._scope.code.made.static.append(f"{prepared} = {self._scope.code.constant(how.prepare)}({names})")
            text = f"{prepared}()"
        self._scope.code.line(text, *inputs, *outs, *scratch)
        return outs[0] if not isinstance(node.type, TupleType) else Value("", parts=tuple(outs))

    def _fitting(self, value: Value, how: Into, node: Apply) -> Value:
        """Return the value, copied where its strides are none that the operation is made for."""
        array = value.array
        if array is None:
            return value
        is_scattered = how.is_dense and array.ndim > 0 and array.shape[-1] > 1 and array.strides[-1] != array.itemsize
        if is_scattered or (node.applies("matmul") and not is_multipliable(array)):
            return self._scope.code.copied(value)
        return value

    def _fused(self, node: Apply, fused: Fused) -> Value:
        loop = loop_of(fused)
        specs = _specs(node)[1]
        inputs = []
        for x, operand in zip(node.arguments, loop.inputs, strict=True):
            inputs.append(self._scope.handed(self._scope.value(x), operand.shape, is_strided=False))
        in_place: dict[int, int] = {}
        outs: list[Value] = []
        for k, (spec, operand) in enumerate(zip(specs, loop.outputs, strict=True)):
            taken = set(in_place.values())
            i = None if operand.is_sum else self._memory.taken_input((node, k), spec, loop.inputs, operand, taken)
            if i is None:
                outs.append(self._memory.buffer(spec, (node, k)))
            else:
                in_place[k] = i
                outs.append(self._scope.value(node.arguments[i]))
        handed = [self._scope.code.reshaped(out, op.shape) for out, op in zip(outs, loop.outputs, strict=True)]
        written = [out for k, out in enumerate(handed) if k not in in_place]
        kernel = self._kernels(loop, in_place, [layout_of(x) for x in (*inputs, *written)])
        names = ", ".join(x.name for x in (*inputs, *written))
        self._scope.code.line(f"{self._scope.code.constant(kernel)}({names})", *inputs, *outs)
        return outs[0] if not isinstance(node.type, TupleType) else Value("", parts=tuple(outs))

    def _control(self, node: Apply, control: Control) -> Value:
        arguments = [self._scope.value(x) for x in node.arguments]
        if control.name == "make_tuple":
            return Value(f"({''.join(x.name + ', ' for x in arguments)})", parts=tuple(arguments))
        if control.name == "tuple_getitem":
            return _part(arguments[0], node)
        if control.name == "depend":
            return arguments[0]
        if control.name == "assign":
            return self._assignments.assign(arguments[0], arguments[1])
        self._assignments.flush()
        name = self._scope.code.new("c")
        self._scope.code.line(
            f"{name} = {self._scope.code.constant(control.evaluate)}({self._call(arguments, node)})", *arguments
        )
        return self._control_value(name, node, owners_of(arguments))

    def _control_value(self, name: str, node: Apply, owners: tuple[Buffer, ...]) -> Value:
        if isinstance(node.type, Spec):
            return self._fresh(name, node.type, owners)
        if isinstance(node.type, TupleType):
            parts = [
                self._fresh(f"{name}[{i}]", spec, owners) if isinstance(spec, Spec) else Value(f"{name}[{i}]")
                for i, spec in enumerate(node.type.elements)
            ]
            return Value(name, parts=tuple(parts))
        return Value(name)


def _entry(node: Apply) -> Into | None:
    """Return how the application writes into given memory, if it can."""
    function = node.inputs[0]
    name = function.value.name if isinstance(function, ConstantNode) and isinstance(function.value, Primitive) else ""
    if name not in INTO or not _is_tensors(node):
        return None
    return INTO[name](*_specs(node), node.attributes)


def _is_tensors(node: Apply) -> bool:
    outputs = node.type.elements if isinstance(node.type, TupleType) else (node.type,)
    return all(isinstance(t, Spec) for t in (*outputs, *(x.type for x in node.arguments)))


def _specs(node: Apply) -> tuple[list[Spec], list[Spec]]:
    outputs = node.type.elements if isinstance(node.type, TupleType) else (node.type,)
    return cast("list[Spec]", [x.type for x in node.arguments]), cast("list[Spec]", list(outputs))


def _part(whole: Value, node: Apply) -> Value:
    index = node.attributes["index"]
    return whole.parts[index] if whole.parts is not None else Value(f"{whole.name}[{index}]")
