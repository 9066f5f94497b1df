"""Generated code while it is written: lines, names, values of nodes, where results lie, assigned weights."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ...ir import Apply, ConstantNode, Node, Where
from ...specs import Shape, Spec
from ...tensor import Array, Tensor
from .fused_loops import Operand
from .memory_plan import Buffer, Lifetimes, Root, Value, have_same_owner, is_whole, lies_in_any, proxy

__all__ = ["Assignments", "Listing", "Lowered", "ProgramScope", "ResultMemory"]


@dataclass
class Lowered:
    """Generated source, and what it needs to run.

    Attributes:
        static: Lines that run once, when memory and weights are known.
        lines: Lines of a call.
        constants: Objects that the source names `k0`, `k1`, ...
        buffers: All memory that it names `b0`, `b1`, ...
        places: Where each line of a call came from: the primitive and its place in the user's code.
        result: The expression that is returned.
    """

    arguments: list[str]
    weights: list[str]
    static: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    constants: list[object] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    places: list[tuple[str, Where]] = field(default_factory=list)
    result: str = "None"


class Listing:
    """Code to which lines are added.

    Attributes:
        made: What has been written so far.
        where: The primitive that lines are being written for, and its place in the user's code.
    """

    def __init__(self) -> None:
        self.made = Lowered([], [])
        self.where: tuple[str, Where] = ("", Where())
        self._serial = 0
        self._constants: dict[int, str] = {}

    def new(self, letter: str = "v") -> str:
        """Return a name that was not used before."""
        self._serial += 1
        return f"{letter}{self._serial}"

    def line(self, text: str, *reads: Value) -> None:
        """Add the line; the memory of what it reads (or fills) lives at least until then."""
        for value in reads:
            self._touch(value)
        self.made.lines.append(text)
        self.made.places.append(self.where)

    def _touch(self, value: Value) -> None:
        step = len(self.made.lines)
        for buffer in value.owners:
            buffer.last = max(buffer.last, step)
        for part in value.parts or ():
            self._touch(part)

    def constant(self, value: object) -> str:
        """Return the name of an object."""
        if id(value) not in self._constants:
            self._constants[id(value)] = f"k{len(self.made.constants)}"
            self.made.constants.append(value)
        return self._constants[id(value)]

    def buffer(
        self, spec: Spec, kind: Literal["planned", "output", "given"] = "planned", given: Array | None = None
    ) -> Value:
        """Return new memory for one array: in the plan, allocated at every call, or that of `given`, seen in this
        shape."""
        step = len(self.made.lines)
        name = f"b{len(self.made.buffers)}"
        nbytes = spec.size * spec.dtype.itemsize
        buffer = Buffer(name, spec.shape, spec.dtype, nbytes, first=step, last=step, kind=kind, purpose=self.where[0])
        self.made.buffers.append(buffer)
        if kind == "output":
            self.line(f"{name} = empty({spec.shape!r}, {self.constant(spec.dtype)})")
        if kind == "given":
            self.made.static.append(f"{name} = {self.constant(given)}.reshape({spec.shape!r})")
        return Value(name, proxy(spec.shape, spec.dtype), (buffer,), kind != "output")

    def seen_as(self, value: Value, expression: str, array: Array) -> Value:
        """Return the value of an expression that looks at another: computed once where it can be."""
        if expression == value.name:
            return Value(value.name, array, value.owners, value.is_static)
        name = self.new()
        if value.is_static:
            self.made.static.append(f"{name} = {expression}")
        else:
            self.line(f"{name} = {expression}", value)
        return Value(name, array, value.owners, value.is_static)

    def reshaped(self, value: Value, shape: Shape) -> Value:
        """Return the value in another shape, copied where it cannot be seen so."""
        assert value.array is not None
        if value.array.shape == shape:
            return value
        seen = value.array.reshape(shape)
        if seen.size and not np.may_share_memory(seen, value.array):
            return self.reshaped(self.copied(value), shape)
        return self.seen_as(value, f"{value.name}.reshape({shape!r})", seen)

    def copied(self, value: Value) -> Value:
        """Return a contiguous copy, in planned memory."""
        assert value.array is not None
        copy = self.buffer(Spec(value.array.shape, value.array.dtype))
        self.line(f"copyto({copy.name}, {value.name})", value, copy)
        return copy


class ProgramScope:
    """The values of nodes at a place that moves through the order of the applications.

    Args:
        lives: Until where the values of nodes are read.

    Attributes:
        code: The lines so far.
        place: The number of the application that is being written.
    """

    def __init__(self, lives: Lifetimes) -> None:
        self.lives = lives
        self.code = Listing()
        self.place = 0
        self._values: dict[Node, Value] = {}

    def set(self, node: Node, value: Value) -> None:
        """Give the node this value from here on."""
        self._values[node] = value

    def known(self) -> list[tuple[Node, Value]]:
        """Return the nodes that have a value, with it."""
        return list(self._values.items())

    def add_parameter(self, i: int, parameter: Node, is_bound: bool) -> None:
        """Give parameter number `i` a value: a weight, or an argument of every call."""
        if not isinstance(parameter.type, Spec):
            self.code.made.arguments.append(f"x{i}")
            self._values[parameter] = Value(f"x{i}")
            return
        array = proxy(parameter.type.shape, parameter.type.dtype)
        if is_bound:
            self.code.made.weights.append(f"w{i}")
            self._values[parameter] = Value(f"w{i}", array, is_static=True)
        else:
            self.code.made.arguments.append(f"x{i}")
            self.code.line(f"if not x{i}.flags.c_contiguous: x{i} = ascontiguousarray(x{i}).reshape(x{i}.shape)")
            self._values[parameter] = Value(f"x{i}", array)

    def value(self, node: Node) -> Value:
        """Return the value of a node that was computed, or of a constant."""
        if node not in self._values:
            if not isinstance(node, ConstantNode):
                raise TypeError(f"{node!r} has no value here")
            self._values[node] = self._constant(node)
        return self._values[node]

    def _constant(self, node: ConstantNode) -> Value:
        value = node.value
        if isinstance(value, Tensor):
            value = np.ascontiguousarray(value._data).reshape(value.shape)
        if isinstance(value, np.ndarray):
            return Value(self.code.constant(value), value, is_static=True)
        if type(value) in (bool, int, float) and np.isfinite(value):
            return Value(repr(value), is_static=True)
        return Value(self.code.constant(value), is_static=True)

    def handed(self, value: Value, shape: Shape | None, is_strided: bool) -> Value:
        """Return the value as an operation wants it: in this shape, contiguous unless any strides will do."""
        if value.array is None:
            return value
        if not is_strided and not value.array.flags.c_contiguous:
            value = self.code.copied(value)
        return value if shape is None else self.code.reshaped(value, shape)

    def is_read_later(self, node: Node) -> bool:
        """Return whether something after this place reads the node."""
        return not self.lives.dies(node, self.place) and self.place < self.lives.end


class ResultMemory:
    """Memory for the results of one graph.

    Args:
        scope: Where the program is.
        result: What the graph returns.
        given: Arrays that outputs are to be written to, by number of the output.
    """

    def __init__(self, scope: ProgramScope, result: Node, given: dict[int, Array]) -> None:
        self._scope, self._of, self._given = scope, result, given
        self._returned = self._returned_nodes()

    def _returned_nodes(self) -> dict[Root, int | None]:
        """Return the roots of what is returned, and the number of the output where it is that alone."""
        result = self._of
        while isinstance(result, Apply) and result.applies("depend"):
            result = result.arguments[0]
        parts = result.arguments if isinstance(result, Apply) and result.applies("make_tuple") else [result]
        found: dict[Root, int | None] = {}
        for i, part in enumerate(parts):
            for root in self._scope.lives.roots(part):
                found[root] = None if root in found else i
        for root in self._scope.lives.roots(self._of):
            found.setdefault(root, None)
        return found

    def result(self, value: Value, node: Node, *, top: bool, index: int | None = None) -> Value:
        """Return what is returned of a value: arrays that are the caller's alone."""
        if value.parts is not None:
            parts = [self.result(part, node, top=False, index=i if top else None) for i, part in enumerate(value.parts)]
            return Value(f"({''.join(part.name + ', ' for part in parts)})", parts=tuple(parts))
        if index in self._given:
            return self._given_result(value, self._given[index])
        if value.array is None or self._is_own(value):
            return value
        name = self._scope.code.new("r")
        self._scope.code.line(f"{name} = array({value.name})", value)
        return Value(name, value.array)

    def _given_result(self, value: Value, target: Array) -> Value:
        held = self._scope.code.constant(target)
        if not (value.owners and value.owners[0].kind == "given" and is_whole(value, value.owners[0])):
            self._scope.code.line(f"copyto({held}, {value.name})", value)
        return Value(held, target, is_static=True)

    def _is_own(self, value: Value) -> bool:
        """Return whether the array lies in memory that was made for this result, and is all of it."""
        if len(value.owners) != 1 or value.owners[0].kind != "output" or not is_whole(value, value.owners[0]):
            return False
        buffer = value.owners[0]
        if buffer.purpose == "returned":
            return False  # once already
        buffer.purpose = "returned"
        return True

    def buffer(self, spec: Spec, root: Root) -> Value:
        """Return memory for a result: planned, for the caller, or where the caller wants it."""
        if root not in self._returned:
            return self._scope.code.buffer(spec)
        number = self._returned[root]
        given = self._given.get(number) if number is not None else None
        if given is not None and given.size == spec.size and given.dtype == spec.dtype and given.flags.c_contiguous:
            return self._scope.code.buffer(spec, "given", given)
        return self._scope.code.buffer(spec, "output")

    def ordered(self, spec: Spec, root: Root, order: Shape | None) -> Value:
        """Return a buffer whose axes lie in memory in this order."""
        if order is None:
            return self.buffer(spec, root)
        held = self.buffer(Spec(tuple(spec.shape[axis] for axis in order), spec.dtype), root)
        back = tuple(sorted(range(len(order)), key=order.__getitem__))
        assert held.array is not None
        return self._scope.code.seen_as(held, f"{held.name}.transpose({back!r})", held.array.transpose(back))

    def overwritten(self, node: Apply, over: Sequence[int], spec: Spec) -> Value | None:
        """Return an input that dies here and whose buffer the result can take."""
        for i in over:
            x = node.arguments[i]
            value = self._scope.value(x)
            others = [y for k, y in enumerate(node.arguments) if k != i]
            if self._can_take(x, value, spec, (node, 0)) and not any(
                have_same_owner(value, self._scope.value(y)) for y in others
            ):
                return Value(value.name, value.array, value.owners, value.is_static)
        return None

    def _can_take(self, x: Node, value: Value, spec: Spec, root: Root) -> bool:
        if len(value.owners) != 1 or value.owners[0].kind != "planned" or not value.is_static:
            return False
        if (
            root in self._returned
            or not is_whole(value, value.owners[0])
            or not self._scope.lives.dies(x, self._scope.place)
        ):
            return False
        assert value.array is not None
        return bool(value.array.shape == spec.shape and value.array.dtype == spec.dtype)

    def taken_input(
        self, root: Root, spec: Spec, operands: Sequence[Operand], out: Operand, taken: set[int]
    ) -> int | None:
        """Return the number of an input that dies here and can hold the output."""
        node = root[0]
        assert isinstance(node, Apply)
        for i, x in enumerate(node.arguments):
            if i in taken or operands[i].axes != out.axes or operands[i].dtype != out.dtype:
                continue
            value = self._scope.value(x)
            others = [self._scope.value(y) for k, y in enumerate(node.arguments) if k != i]
            if self._can_take(x, value, spec, root) and not any(have_same_owner(value, y) for y in others):
                return i
        return None


class Assignments:
    """The assignments that are not written yet.

    Args:
        scope: Where the program is.
    """

    def __init__(self, scope: ProgramScope) -> None:
        self._scope = scope
        self._pending: list[tuple[Value, Value]] = []

    def assign(self, target: Value, value: Value) -> Value:
        """Return the new value; the weight itself is overwritten when nobody reads its old one any more, at the
        latest."""
        self._pending.append((target, value))
        return value

    def flush(self) -> None:
        """Write the assigned weights; what is still to be read of an old one is kept first."""
        targets = {target.name: target for target, _ in self._pending}
        if not targets:
            return
        newest = {target.name: value for target, value in self._pending}
        self._pending = []
        held = {}
        for name, value in newest.items():
            is_own = value.is_static and not value.owners
            held[name] = self._scope.code.copied(value) if is_own and value.name != name and len(newest) > 1 else value
        for node, value in self._scope.known():
            if self._scope.is_read_later(node) and lies_in_any(value, targets.values()):
                self._scope.set(node, self._scope.code.copied(value))
        for name, value in held.items():
            if value.name != name:
                self._scope.code.line(f"copyto({name}, {value.name}, casting='unsafe')", value)
