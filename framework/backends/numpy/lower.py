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

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...compiler.passes.fuse import Fused
from ...ir import Apply, Constant, Graph, Node, TupleType, Where
from ...ir.control import Control
from ...primitive import Primitive
from ...shape import Shape, Spec
from ...tensor import Array, Tensor
from .into import INTO, Into
from .kernel import kernel_of
from .lifetimes import Lifetimes, Root
from .listing import Listing, Lowered
from .loops import loop_of
from .ordering import Kernels, no_kernel, smaller_order
from .plan import Buffer
from .values import Value, have_same_owner, is_multipliable, is_whole, layout_of, lies_in_any, owners_of, proxy
from .views import VIEWS, view_source

__all__ = ["lower"]


def lower(
    graph: Graph, order: Sequence[Apply], is_bound: Sequence[bool], given: dict[int, Array] | None = None
) -> Lowered:
    """The source of a graph without control flow.

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
        self._graph, self._order, self._given, self._kernels = graph, order, given, kernels
        self._how = {node: self._entry(node) for node in order}
        self._lives = Lifetimes(order, graph.result, self.is_view)
        self._values: dict[Node, Value] = {}
        self._place = 0
        self._code = Listing()
        self._returned = self._returned_nodes()
        self._pending: list[tuple[Value, Value]] = []
        for i, (parameter, bound) in enumerate(zip(graph.parameters, is_bound, strict=True)):
            self._parameter(i, parameter, bound)

    # The whole.

    def run(self) -> Lowered:
        """The lowered graph."""
        for place, node in enumerate(self._order):
            self._place = place
            function = node.inputs[0]
            name = getattr(function.value, "name", "") if isinstance(function, Constant) else ""
            self._code.where = (name, node.where)
            self._values[node] = self._apply(node)
        self._place = len(self._order)
        self._code.where = ("return", Where())
        result = self._result(self._value(self._graph.result), self._graph.result, top=True)
        self._flush()
        self._code.made.result = result.name
        return self._code.made

    def _entry(self, node: Apply) -> Into | None:
        """How the application writes into given memory, if it can."""
        function = node.inputs[0]
        name = function.value.name if isinstance(function, Constant) and isinstance(function.value, Primitive) else ""
        if name not in INTO or not self._is_tensors(node):
            return None
        return INTO[name](*self._specs(node), node.attributes)

    def is_view(self, node: Apply) -> bool:
        """Whether the result may lie in the memory of the arguments."""
        function = node.inputs[0]
        if not isinstance(function, Constant) or isinstance(function.value, Fused):
            return False
        return self._how[node] is None

    def _returned_nodes(self) -> dict[Root, int | None]:
        """The roots of what is returned, and the number of the output where it is that alone."""
        result = self._graph.result
        while isinstance(result, Apply) and result.applies("depend"):
            result = result.arguments[0]
        parts = result.arguments if isinstance(result, Apply) and result.applies("make_tuple") else [result]
        found: dict[Root, int | None] = {}
        for i, part in enumerate(parts):
            for root in self._lives.roots(part):
                found[root] = None if root in found else i
        for root in self._lives.roots(self._graph.result):
            found.setdefault(root, None)
        return found

    def _result(self, value: Value, node: Node, *, top: bool, index: int | None = None) -> Value:
        """What is returned of a value: arrays that are the caller's alone."""
        if value.parts is not None:
            parts = [
                self._result(part, node, top=False, index=i if top else None) for i, part in enumerate(value.parts)
            ]
            return Value(f"({''.join(part.name + ', ' for part in parts)})", parts=tuple(parts))
        if index in self._given:
            return self._given_result(value, self._given[index])
        if value.array is None or self._is_own(value):
            return value
        name = self._code.new("r")
        self._code.line(f"{name} = array({value.name})", value)
        return Value(name, value.array)

    def _given_result(self, value: Value, target: Array) -> Value:
        held = self._code.constant(target)
        if not (value.owners and value.owners[0].kind == "given" and is_whole(value, value.owners[0])):
            self._code.line(f"copyto({held}, {value.name})", value)
        return Value(held, target, is_static=True)

    def _is_own(self, value: Value) -> bool:
        """Whether the array lies in memory that was made for this result, and is all of it."""
        if len(value.owners) != 1 or value.owners[0].kind != "output" or not is_whole(value, value.owners[0]):
            return False
        buffer = value.owners[0]
        if buffer.purpose == "returned":
            return False  # once already
        buffer.purpose = "returned"
        return True

    def _buffer(self, spec: Spec, root: Root) -> Value:
        """Memory for a result: planned, for the caller, or where the caller wants it."""
        if root not in self._returned:
            return self._code.buffer(spec)
        number = self._returned[root]
        given = self._given.get(number) if number is not None else None
        if given is not None and given.size == spec.size and given.dtype == spec.dtype and given.flags.c_contiguous:
            return self._code.buffer(spec, "given", given)
        return self._code.buffer(spec, "output")

    # Inputs.

    def _parameter(self, i: int, parameter: Node, is_bound: bool) -> None:
        if not isinstance(parameter.type, Spec):
            self._code.made.arguments.append(f"x{i}")
            self._values[parameter] = Value(f"x{i}")
            return
        array = proxy(parameter.type.shape, parameter.type.dtype)
        if is_bound:
            self._code.made.weights.append(f"w{i}")
            self._values[parameter] = Value(f"w{i}", array, is_static=True)
        else:
            self._code.made.arguments.append(f"x{i}")
            self._code.line(f"if not x{i}.flags.c_contiguous: x{i} = ascontiguousarray(x{i}).reshape(x{i}.shape)")
            self._values[parameter] = Value(f"x{i}", array)

    def _value(self, node: Node) -> Value:
        if node not in self._values:
            if not isinstance(node, Constant):
                raise TypeError(f"{node!r} has no value here")
            self._values[node] = self._constant_value(node)
        return self._values[node]

    def _constant_value(self, node: Constant) -> Value:
        value = node.value
        if isinstance(value, Tensor):
            value = np.ascontiguousarray(value._data).reshape(value.shape)
        if isinstance(value, np.ndarray):
            return Value(self._code.constant(value), value, is_static=True)
        if type(value) in (bool, int, float) and np.isfinite(value):
            return Value(repr(value), is_static=True)
        return Value(self._code.constant(value), is_static=True)

    # Applications.

    def _apply(self, node: Apply) -> Value:
        function = node.inputs[0]
        if not isinstance(function, Constant):
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

    @staticmethod
    def _is_tensors(node: Apply) -> bool:
        outputs = node.type.elements if isinstance(node.type, TupleType) else (node.type,)
        return all(isinstance(t, Spec) for t in (*outputs, *(x.type for x in node.arguments)))

    @staticmethod
    def _specs(node: Apply) -> tuple[list[Any], list[Any]]:
        outputs = node.type.elements if isinstance(node.type, TupleType) else (node.type,)
        return [x.type for x in node.arguments], list(outputs)

    def _view(self, node: Apply, name: str) -> Value | None:
        """The argument seen otherwise, or None where that needs a copy."""
        base = self._value(node.arguments[0])
        if base.array is None:
            return None
        seen = VIEWS[name](base.array, **node.attributes)
        if isinstance(seen, tuple):
            call = f"{self._code.constant(VIEWS[name])}({base.name}, **{self._code.constant(dict(node.attributes))})"
            return self._split(base, call, seen)
        if seen.size and not np.may_share_memory(seen, base.array):
            return None
        source = view_source(name, base.name, base.array, seen, node.attributes)
        assert source is not None
        return self._code.seen_as(base, source, seen)

    def _split(self, base: Value, call: str, seen: tuple[Array, ...]) -> Value:
        whole = self._code.seen_as(base, call, seen[0])
        parts = tuple(Value(f"{whole.name}[{i}]", array, base.owners, base.is_static) for i, array in enumerate(seen))
        if base.is_static:
            parts = tuple(
                self._code.seen_as(part, f"({part.name})", array) for part, array in zip(parts, seen, strict=True)
            )
        return Value(whole.name, parts=parts)

    def _evaluate(self, node: Apply, primitive: Primitive) -> Value:
        """A call of the primitive's own evaluation, which allocates its result."""
        arguments = [self._value(x) for x in node.arguments]
        name = self._code.new("e")
        text = f"{self._code.constant(primitive.evaluate)}({self._call(arguments, node)})"
        outputs = node.type.elements if isinstance(node.type, TupleType) else None
        if outputs is None:
            text = f"asarray({text})"
        self._code.line(f"{name} = {text}", *arguments)
        owners = owners_of(arguments)  # it may be a view of them
        if outputs is None:
            assert isinstance(node.type, Spec)
            return self._fresh(name, node.type, owners)
        parts = [self._fresh(f"{name}[{i}]", spec, owners) for i, spec in enumerate(outputs) if isinstance(spec, Spec)]
        return Value(name, parts=tuple(parts))

    def _fresh(self, name: str, spec: Spec, owners: tuple[Buffer, ...]) -> Value:
        """An allocated result in C order, so that its strides are known."""
        held = self._code.new("f")
        self._code.line(f"{held} = {name}")
        self._code.line(f"if not {held}.flags.c_contiguous: {held} = ascontiguousarray({held}).reshape({spec.shape!r})")
        return Value(held, proxy(spec.shape, spec.dtype), owners)

    def _call(self, arguments: Sequence[Value], node: Apply) -> str:
        extra = [f"**{self._code.constant(dict(node.attributes))}"] if node.attributes else []
        return ", ".join([*(x.name for x in arguments), *extra])

    def _into(self, node: Apply, how: Into) -> Value:
        """A line that computes the primitive into a buffer."""
        inputs = [
            self._handed(self._fitting(self._value(x), how, node), shape, how.is_strided)
            for x, shape in zip(node.arguments, how.inputs, strict=True)
        ]
        specs = self._specs(node)[1]
        over = self._overwritten(node, how.over, specs[0]) if len(specs) == 1 else None
        orders = how.orders or (None,) * len(specs)
        outs = [over] if over is not None else [self._ordered(s, (node, k), orders[k]) for k, s in enumerate(specs)]
        scratch = [self._code.buffer(spec) for spec in how.scratch]
        handed = [
            self._code.reshaped(out, shape) if shape is not None else out
            for out, shape in zip(outs, how.outputs, strict=True)
        ]
        names = ", ".join(x.name for x in (*inputs, *handed, *scratch))
        text = f"{self._code.constant(how.run)}({names})"
        if how.prepare is not None and all(x.is_static for x in (*inputs, *handed, *scratch)):
            prepared = self._code.new("p")
            self._code.made.static.append(f"{prepared} = {self._code.constant(how.prepare)}({names})")
            text = f"{prepared}()"
        self._code.line(text, *inputs, *outs, *scratch)
        return outs[0] if not isinstance(node.type, TupleType) else Value("", parts=tuple(outs))

    def _ordered(self, spec: Spec, root: Root, order: Shape | None) -> Value:
        """A buffer whose axes lie in memory in this order."""
        if order is None:
            return self._buffer(spec, root)
        held = self._buffer(Spec(tuple(spec.shape[axis] for axis in order), spec.dtype), root)
        back = tuple(sorted(range(len(order)), key=order.__getitem__))
        assert held.array is not None
        return self._code.seen_as(held, f"{held.name}.transpose({back!r})", held.array.transpose(back))

    def _overwritten(self, node: Apply, over: Sequence[int], spec: Spec) -> Value | None:
        """An input that dies here and whose buffer the result can take."""
        for i in over:
            x = node.arguments[i]
            value = self._value(x)
            others = [y for k, y in enumerate(node.arguments) if k != i]
            if self._can_take(x, value, spec, (node, 0)) and not any(
                have_same_owner(value, self._value(y)) for y in others
            ):
                return Value(value.name, value.array, value.owners, value.is_static)
        return None

    def _can_take(self, x: Node, value: Value, spec: Spec, root: Root) -> bool:
        if len(value.owners) != 1 or value.owners[0].kind != "planned" or not value.is_static:
            return False
        if root in self._returned or not is_whole(value, value.owners[0]) or not self._lives.dies(x, self._place):
            return False
        assert value.array is not None
        return bool(value.array.shape == spec.shape and value.array.dtype == spec.dtype)

    def _fitting(self, value: Value, how: Into, node: Apply) -> Value:
        """The value, copied where its strides are none that the operation is made for."""
        array = value.array
        if array is None:
            return value
        is_scattered = how.is_dense and array.ndim > 0 and array.shape[-1] > 1 and array.strides[-1] != array.itemsize
        if is_scattered or (node.applies("matmul") and not is_multipliable(array)):
            return self._code.copied(value)
        return value

    def _handed(self, value: Value, shape: Shape | None, is_strided: bool) -> Value:
        """The value as an operation wants it: in this shape, contiguous unless any strides will do."""
        if value.array is None:
            return value
        if not is_strided and not value.array.flags.c_contiguous:
            value = self._code.copied(value)
        return value if shape is None else self._code.reshaped(value, shape)

    # Fused kernels.

    def _fused(self, node: Apply, fused: Fused) -> Value:
        loop = loop_of(fused)
        specs = self._specs(node)[1]
        inputs = []
        for x, operand in zip(node.arguments, loop.inputs, strict=True):
            inputs.append(self._handed(self._value(x), operand.shape, is_strided=False))
        in_place: dict[int, int] = {}
        outs: list[Value] = []
        for k, (spec, operand) in enumerate(zip(specs, loop.outputs, strict=True)):
            taken = set(in_place.values())
            i = None if operand.is_sum else self._taken_input((node, k), spec, loop.inputs, operand, taken)
            if i is None:
                outs.append(self._buffer(spec, (node, k)))
            else:
                in_place[k] = i
                outs.append(self._value(node.arguments[i]))
        handed = [self._code.reshaped(out, op.shape) for out, op in zip(outs, loop.outputs, strict=True)]
        written = [out for k, out in enumerate(handed) if k not in in_place]
        kernel = self._kernels(loop, in_place, [layout_of(x) for x in (*inputs, *written)])
        names = ", ".join(x.name for x in (*inputs, *written))
        self._code.line(f"{self._code.constant(kernel)}({names})", *inputs, *outs)
        return outs[0] if not isinstance(node.type, TupleType) else Value("", parts=tuple(outs))

    def _taken_input(self, root: Root, spec: Spec, operands: Sequence[Any], out: Any, taken: set[int]) -> int | None:
        """The number of an input that dies here and can hold the output."""
        node = root[0]
        assert isinstance(node, Apply)
        for i, x in enumerate(node.arguments):
            if i in taken or operands[i].axes != out.axes or operands[i].dtype != out.dtype:
                continue
            value = self._value(x)
            others = [self._value(y) for k, y in enumerate(node.arguments) if k != i]
            if self._can_take(x, value, spec, root) and not any(have_same_owner(value, y) for y in others):
                return i
        return None

    # Control operations.

    def _control(self, node: Apply, control: Control) -> Value:
        arguments = [self._value(x) for x in node.arguments]
        if control.name == "make_tuple":
            return Value(f"({''.join(x.name + ', ' for x in arguments)})", parts=tuple(arguments))
        if control.name == "tuple_getitem":
            return self._part(arguments[0], node)
        if control.name == "depend":
            return arguments[0]
        if control.name == "assign":
            return self._assign(arguments[0], arguments[1], node)
        self._flush()
        name = self._code.new("c")
        self._code.line(f"{name} = {self._code.constant(control.evaluate)}({self._call(arguments, node)})", *arguments)
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

    @staticmethod
    def _part(whole: Value, node: Apply) -> Value:
        index = node.attributes["index"]
        return whole.parts[index] if whole.parts is not None else Value(f"{whole.name}[{index}]")

    def _assign(self, target: Value, value: Value, node: Apply) -> Value:
        """The new value; the weight itself is overwritten when nobody reads its old one any more, at the latest."""
        self._pending.append((target, value))
        del node
        return value

    def _flush(self) -> None:
        """Writes the assigned weights; what is still to be read of an old one is kept first."""
        targets = {target.name: target for target, _ in self._pending}
        if not targets:
            return
        newest = {target.name: value for target, value in self._pending}
        self._pending = []
        held = {}
        for name, value in newest.items():
            is_own = value.is_static and not value.owners
            held[name] = self._code.copied(value) if is_own and value.name != name and len(newest) > 1 else value
        for node, value in list(self._values.items()):
            if self._is_read_later(node) and lies_in_any(value, targets.values()):
                self._values[node] = self._code.copied(value)
        for name, value in held.items():
            if value.name != name:
                self._code.line(f"copyto({name}, {value.name}, casting='unsafe')", value)

    def _is_read_later(self, node: Node) -> bool:
        return not self._lives.dies(node, self._place) and self._place < self._lives.end
