"""The loop of a fused kernel: which axes it runs over, and the source that numba compiles.

Axes along which every operand varies together, or not at all, are one axis to the loop. An operand is handed over with
only the axes along which it varies, so a bias is a vector, and a number an array of one element.
"""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from ...compiler.passes.fuse import Fused
from ...ir import Apply, Constant, Node
from ...ir.visit import order
from ...shape import Shape, Spec
from .formulas import FORMULAS

__all__ = ["Loop", "Operand", "loop_of"]


class Operand(NamedTuple):
    """An array that the loop reads or writes.

    Attributes:
        shape: In which it is handed over.
        axes: Of the loop along which it varies.
        dtype: Name of its type.
        is_sum: Whether it is added up.
    """

    shape: Shape
    axes: tuple[int, ...]
    dtype: str
    is_sum: bool = False


class Loop(NamedTuple):
    """A fused graph as one nest of loops.

    Attributes:
        lengths: Of its axes, outermost first.
        inputs: What it reads, in the order of the graph's parameters.
        outputs: What it writes.
    """

    fused: Fused
    lengths: Shape
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]

    def source(self, in_place: "dict[int, int]") -> str:
        """The kernel `kernel(inputs..., outputs...)`; output k with `in_place[k] = i` is written over input i."""
        return _Writer(self, in_place).source()


def loop_of(fused: Fused) -> Loop:
    """The loop that computes a fused graph."""
    outputs = outputs_of(fused)
    whole = _whole_shape(fused)
    masks = [_mask(parameter.type, whole) for parameter in fused.parameters]
    kept = [_kept_axes(node, whole) for node in outputs]
    groups = _grouped(whole, [*masks, *kept])
    lengths = tuple(prod(whole[axis] for axis in group) for group in groups)

    def operand(node: Node, mask: tuple[bool, ...], is_sum: bool) -> Operand:
        axes = tuple(i for i, group in enumerate(groups) if mask[group[0]])
        assert isinstance(node.type, Spec)
        return Operand(tuple(lengths[i] for i in axes) or (1,), axes, node.type.dtype.name, is_sum)

    inputs = tuple(operand(p, mask, False) for p, mask in zip(fused.parameters, masks, strict=True))
    made = tuple(operand(node, mask, is_sum(node)) for node, mask in zip(outputs, kept, strict=True))
    return Loop(fused, lengths, inputs, made)


def outputs_of(fused: Fused) -> list[Apply]:
    """The applications that the fused graph returns."""
    result = fused.result
    assert isinstance(result, Apply)
    parts = result.arguments if result.applies("make_tuple") else [result]
    return [part for part in parts if isinstance(part, Apply)]


def is_sum(node: Node) -> bool:
    """Whether the node adds up what the loop computes."""
    return isinstance(node, Apply) and (node.applies("sum_to") or node.applies("sum"))


def _whole_shape(fused: Fused) -> Shape:
    """The shape that the loop runs over: of any member, or of what a sum adds up."""
    for node in order(fused):
        spec = node.arguments[0].type if is_sum(node) else node.type
        if isinstance(spec, Spec):
            return spec.shape
    raise ValueError(f"'{fused.name}' computes no tensor")


def _mask(spec: Any, whole: Shape) -> tuple[bool, ...]:
    """For each axis of the whole whether an operand of this type varies along it."""
    shape = (1,) * (len(whole) - len(spec.shape)) + spec.shape
    return tuple(length != 1 for length in shape)


def _kept_axes(node: Apply, whole: Shape) -> tuple[bool, ...]:
    if not is_sum(node):
        return _mask(node.type, whole)
    if node.applies("sum_to"):
        return _mask(node.type, whole)
    gone = node.attributes["axes"]
    return tuple(axis not in gone and length != 1 for axis, length in enumerate(whole))


def _grouped(whole: Shape, masks: Sequence[tuple[bool, ...]]) -> list[list[int]]:
    """Runs of neighbouring axes that are one to every operand; axes of length 1 belong to none."""
    groups: list[list[int]] = []
    for axis, length in enumerate(whole):
        if length == 1:
            continue
        if groups and all(mask[axis] == mask[groups[-1][-1]] for mask in masks):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups


_LETTERS = "ijklmnop"


class _Writer:
    """Writes the source of one kernel."""

    def __init__(self, loop: Loop, in_place: dict[int, int]) -> None:
        self._loop, self._in_place = loop, in_place
        self._depth = len(loop.lengths)
        self._numbers: dict[str, str] = {}
        self._names: dict[Node, str] = {}

    def source(self) -> str:
        """The module: constants, and the function `kernel`."""
        loop = self._loop
        body = self._body()
        names = [f"x{i}" for i in range(len(loop.inputs))]
        names += [f"y{k}" for k in range(len(loop.outputs)) if k not in self._in_place]
        constants = [f"{name} = {value}" for value, name in self._numbers.items()]
        return "\n".join([*constants, f"def kernel({', '.join(names)}):", *body, ""])

    def _target(self, k: int) -> str:
        return f"x{self._in_place[k]}" if k in self._in_place else f"y{k}"

    def _body(self) -> list[str]:
        """Zeros for the sums; then level by level the loop, what can be read there, and what is written there."""
        lines = [f"    y{k}[:] = 0" for k, out in enumerate(self._loop.outputs) if out.is_sum]
        return [*lines, *self._level(0)] or ["    pass"]

    def _level(self, level: int) -> list[str]:
        """The source inside `level` loops."""
        pad = "    " * (level + 1)
        lines = [f"{pad}{line}" for line in self._reads(level)]
        if level == self._depth:
            return lines + [f"{pad}{line}" for line in self._arithmetic()]
        local = [k for k, out in enumerate(self._loop.outputs) if out.is_sum and self._last(out) == level]
        lines += [f"{pad}s{k} = {self._zero(k)}" for k in local]
        lines.append(f"{pad}for {_LETTERS[level]} in range({self._length(level)}):")
        lines += self._level(level + 1)
        lines += [f"{pad}{self._place(f'y{k}', self._loop.outputs[k])} += s{k}" for k in local]
        return lines

    @staticmethod
    def _last(operand: Operand) -> int:
        """How many loops are around the innermost place where the operand is the same."""
        return operand.axes[-1] + 1 if operand.axes else 0

    def _reads(self, level: int) -> list[str]:
        found = [i for i, x in enumerate(self._loop.inputs) if self._last(x) == level]
        return [f"a{i} = {self._place(f'x{i}', self._loop.inputs[i])}" for i in found]

    def _place(self, name: str, operand: Operand) -> str:
        return f"{name}[{', '.join(_LETTERS[axis] for axis in operand.axes) or '0'}]"

    def _length(self, level: int) -> str:
        """The length of a loop, read off an operand that varies along it."""
        for i, x in enumerate(self._loop.inputs):
            if level in x.axes:
                return f"x{i}.shape[{x.axes.index(level)}]"
        for k, y in enumerate(self._loop.outputs):
            if level in y.axes:
                return f"{self._target(k)}.shape[{y.axes.index(level)}]"
        return str(self._loop.lengths[level])

    def _zero(self, k: int) -> str:
        return self._number(0.0, self._loop.outputs[k].dtype)

    def _number(self, value: float, dtype: str) -> str:
        """The name of a constant of a type."""
        if dtype == "bool":
            return str(bool(value))
        text = f"np.{dtype}({value!r})" if abs(value) < float("inf") else f"np.{dtype}(float('{value}'))"
        return self._numbers.setdefault(text, f"c{len(self._numbers)}")

    def _arithmetic(self) -> list[str]:
        """One line for each member, then the stores."""
        for i, parameter in enumerate(self._loop.fused.parameters):
            self._names[parameter] = f"a{i}"
        lines = []
        for node in order(self._loop.fused):
            if node.applies("make_tuple") or is_sum(node):
                continue
            name = self._names[node] = f"t{len(self._names)}"
            lines.append(f"{name} = {self._expression(node)}")
        for k, (node, out) in enumerate(zip(outputs_of(self._loop.fused), self._loop.outputs, strict=True)):
            value = self._names[node.arguments[0] if is_sum(node) else node]
            if not out.is_sum:
                lines.append(f"{self._place(self._target(k), out)} = {value}")
            elif self._last(out) == self._depth:
                lines.append(f"{self._place(f'y{k}', out)} += {value}")
            else:
                lines.append(f"s{k} += {value}")
        return lines

    def _expression(self, node: Apply) -> str:
        function = node.inputs[0]
        assert isinstance(function, Constant)
        dtype = _operand_type(node)
        names = [self._operand(x, dtype) for x in node.arguments]
        return FORMULAS[function.value.name](lambda value: self._number(value, dtype), *names, **node.attributes)

    def _operand(self, node: Node, dtype: str) -> str:
        if isinstance(node, Constant):
            return self._number(node.value, dtype)
        return self._names[node]


def _operand_type(node: Apply) -> str:
    """The floating type of the arithmetic; of a comparison that of its operands."""
    for x in node.arguments:
        if isinstance(x.type, Spec) and not x.type.weak and x.type.dtype.name != "bool":
            return x.type.dtype.name
    assert isinstance(node.type, Spec)
    return node.type.dtype.name
