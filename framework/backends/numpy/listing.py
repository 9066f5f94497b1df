"""Generated code while it is being written: lines, names, constants, memory, and which line reads which memory."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ...ir import Where
from ...shape import Shape, Spec
from ...tensor import Array
from .plan import Buffer
from .values import Value, proxy

__all__ = ["Listing", "Lowered"]


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
    constants: list[Any] = field(default_factory=list)
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
        """A name that was not used before."""
        self._serial += 1
        return f"{letter}{self._serial}"

    def line(self, text: str, *reads: Value) -> None:
        """Nothing; the line is added, and the memory of what it reads (or fills) lives at least until then."""
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

    def constant(self, value: Any) -> str:  # any object the source needs
        """The name of an object."""
        if id(value) not in self._constants:
            self._constants[id(value)] = f"k{len(self.made.constants)}"
            self.made.constants.append(value)
        return self._constants[id(value)]

    def buffer(
        self, spec: Spec, kind: Literal["planned", "output", "given"] = "planned", given: Array | None = None
    ) -> Value:
        """New memory for one array: in the plan, allocated at every call, or that of `given`, seen in this shape."""
        step = len(self.made.lines)
        name = f"b{len(self.made.buffers)}"
        nbytes = spec.size * spec.dtype.itemsize
        buffer = Buffer(name, spec.shape, spec.dtype, nbytes, step, step, kind, purpose=self.where[0])
        self.made.buffers.append(buffer)
        if kind == "output":
            self.line(f"{name} = empty({spec.shape!r}, {self.constant(spec.dtype)})")
        if kind == "given":
            self.made.static.append(f"{name} = {self.constant(given)}.reshape({spec.shape!r})")
        return Value(name, proxy(spec.shape, spec.dtype), (buffer,), kind != "output")

    def seen_as(self, value: Value, expression: str, array: Array) -> Value:
        """The value of an expression that looks at another: computed once where it can be."""
        if expression == value.name:
            return Value(value.name, array, value.owners, value.is_static)
        name = self.new()
        if value.is_static:
            self.made.static.append(f"{name} = {expression}")
        else:
            self.line(f"{name} = {expression}", value)
        return Value(name, array, value.owners, value.is_static)

    def reshaped(self, value: Value, shape: Shape) -> Value:
        """The value in another shape, copied where it cannot be seen so."""
        assert value.array is not None
        if value.array.shape == shape:
            return value
        seen = value.array.reshape(shape)
        if seen.size and not np.may_share_memory(seen, value.array):
            return self.reshaped(self.copied(value), shape)
        return self.seen_as(value, f"{value.name}.reshape({shape!r})", seen)

    def copied(self, value: Value) -> Value:
        """A contiguous copy, in planned memory."""
        assert value.array is not None
        copy = self.buffer(Spec(value.array.shape, value.array.dtype))
        self.line(f"copyto({copy.name}, {value.name})", value, copy)
        return copy
