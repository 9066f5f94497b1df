"""The loop of a fused kernel: its axes, the source that numba compiles, and the compiled kernels on disk.

Axes along which every operand varies together, or not at all, are one axis to the loop. An operand is handed over with
only the axes along which it varies, so a bias is a vector, and a number an array of one element.

The folder is `$MINDSCOPE_CACHE`, by default `$XDG_CACHE_HOME/mindscope` or `~/.cache/mindscope`. A file is written
under another name and then renamed, so that readers and writers in other processes see a whole one or none. What
cannot be written or is damaged costs a compilation, never a run.
"""

import hashlib
import importlib.util
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numba

from ...compiler.passes.fuse import Fused
from ...ir import Apply, ConstantNode, Node
from ...ir.ir_types import Abstract
from ...ir.visit import order
from ...kernels import exponential
from ...specs import Shape, Spec
from .formulas import FORMULAS

__all__ = ["FusedLoop", "Operand", "cache_folder", "kernel_from_source", "kernel_of", "loop_of"]


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


class FusedLoop(NamedTuple):
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
        """Compile `kernel(inputs..., outputs...)`; output k with `in_place[k] = i` is written over input i."""
        return _LoopWriter(self, in_place).source()


def loop_of(fused: Fused) -> FusedLoop:
    """Return the loop that computes a fused graph."""
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
    return FusedLoop(fused, lengths, inputs, made)


def outputs_of(fused: Fused) -> list[Apply]:
    """Return the applications that the fused graph returns."""
    result = fused.result
    assert isinstance(result, Apply)
    parts = result.arguments if result.applies("make_tuple") else [result]
    return [part for part in parts if isinstance(part, Apply)]


def is_sum(node: Node) -> bool:
    """Return whether the node adds up what the loop computes."""
    return isinstance(node, Apply) and (node.applies("sum_to") or node.applies("sum"))


def _whole_shape(fused: Fused) -> Shape:
    """Return the shape that the loop runs over: of any member, or of what a sum adds up."""
    for node in order(fused):
        spec = node.arguments[0].type if is_sum(node) else node.type
        if isinstance(spec, Spec):
            return spec.shape
    raise ValueError(f"'{fused.name}' computes no tensor")


def _mask(spec: Abstract, whole: Shape) -> tuple[bool, ...]:
    """Return for each axis of the whole whether an operand of this type varies along it."""
    assert isinstance(spec, Spec)
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
    """Return runs of neighbouring axes that are one to every operand; axes of length 1 belong to none."""
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


class _LoopWriter:
    """Writes the source of one kernel."""

    def __init__(self, loop: FusedLoop, in_place: dict[int, int]) -> None:
        self._loop, self._in_place = loop, in_place
        self._depth = len(loop.lengths)
        self._numbers: dict[str, str] = {}
        self._names: dict[Node, str] = {}

    def source(self) -> str:
        """Return the module: constants, and the function `kernel`."""
        loop = self._loop
        body = self._body()
        names = [f"x{i}" for i in range(len(loop.inputs))]
        names += [f"y{k}" for k in range(len(loop.outputs)) if k not in self._in_place]
        constants = [f"{name} = {value}" for value, name in self._numbers.items()]
        return "\n".join([*constants, f"def kernel({', '.join(names)}):", *body, ""])

    def _target(self, k: int) -> str:
        return f"x{self._in_place[k]}" if k in self._in_place else f"y{k}"

    def _body(self) -> list[str]:
        """Write zeros for the sums; then level by level the loop, what is read there, and what is written there."""
        lines = [f"    y{k}[:] = 0" for k, out in enumerate(self._loop.outputs) if out.is_sum]
        return [*lines, *self._level(0)] or ["    pass"]

    def _level(self, level: int) -> list[str]:
        """Return the source inside `level` loops."""
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
        """Return how many loops are around the innermost place where the operand is the same."""
        return operand.axes[-1] + 1 if operand.axes else 0

    def _reads(self, level: int) -> list[str]:
        found = [i for i, x in enumerate(self._loop.inputs) if self._last(x) == level]
        return [f"a{i} = {self._place(f'x{i}', self._loop.inputs[i])}" for i in found]

    def _place(self, name: str, operand: Operand) -> str:
        return f"{name}[{', '.join(_LETTERS[axis] for axis in operand.axes) or '0'}]"

    def _length(self, level: int) -> str:
        """Return the length of a loop, read off an operand that varies along it."""
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
        """Return the name of a constant of a type."""
        if dtype == "bool":
            return str(bool(value))
        text = f"np.{dtype}({value!r})" if abs(value) < float("inf") else f"np.{dtype}(float('{value}'))"
        return self._numbers.setdefault(text, f"c{len(self._numbers)}")

    def _arithmetic(self) -> list[str]:
        """Return one line for each member, then the stores."""
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
        assert isinstance(function, ConstantNode)
        dtype = _operand_type(node)
        names = [self._operand(x, dtype) for x in node.arguments]
        return FORMULAS[function.value.name](lambda value: self._number(value, dtype), *names, **node.attributes)

    def _operand(self, node: Node, dtype: str) -> str:
        if isinstance(node, ConstantNode):
            return self._number(node.value, dtype)
        return self._names[node]


def _operand_type(node: Apply) -> str:
    """Return the floating type of the arithmetic; of a comparison that of its operands."""
    for x in node.arguments:
        if isinstance(x.type, Spec) and not x.type.weak and x.type.dtype.name != "bool":
            return x.type.dtype.name
    assert isinstance(node.type, Spec)
    return node.type.dtype.name


_log = logging.getLogger(__name__)

# Whatever changes the machine code must change this text: its hash names the file beside which numba keeps the code.
_INLINED = hashlib.sha256(Path(str(exponential.__file__)).read_bytes()).hexdigest()[:16]
_HEAD = f'''"""A fused kernel in exact arithmetic, generated; it may be deleted at any time.
Inlined: {_INLINED}."""
import numpy as np
from mindscope.framework.kernels.exponential import exp, gelu_slope, silu_slope
'''


_KERNELS: dict[tuple[str, tuple[object, ...]], Callable[..., None]] = {}


def cache_folder() -> Path:
    """Return where compiled things are kept; it need not exist."""
    chosen = os.environ.get("MINDSCOPE_CACHE")
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "mindscope"


def kernel_from_source(source: str, signature: tuple[object, ...]) -> Callable[..., None]:
    """Compile the function `kernel` of the source for arguments of these numba types; equal sources share one."""
    key = (source, signature)
    if key not in _KERNELS:
        module, is_cached = _module(_HEAD + source)
        _KERNELS[key] = _compiled(module.kernel, signature, is_cached)
    return _KERNELS[key]


def _compiled(function: Callable[..., None], signature: tuple[object, ...], is_cached: bool) -> Callable[..., None]:
    """Return the entry point for this signature: it takes the arguments as they are, without looking at their types."""
    # No fast arithmetic: an operation gives the same bits in every group that it may be fused into.
    options = {"nogil": True, "error_model": "numpy"}
    kind = numba.void(*signature)
    if is_cached:
        try:
            return _entry(numba.njit(kind, cache=True, **options)(function))
        except Exception as error:  # noqa: BLE001 (a damaged cache raises whatever unpickling does)
            _log.info("the kernel cache in %s was of no use (%s); compiling", cache_folder(), error)
    return _entry(numba.njit(kind, **options)(function))


def _entry(dispatcher: Any) -> Callable[..., None]:  # numba's dispatchers have no public type
    (compiled,) = dispatcher.overloads.values()
    entry: Callable[..., None] = compiled.entry_point
    return entry


def _module(source: str) -> tuple[ModuleType, bool]:
    """Return the source as a module, and whether it stands in a file that numba can cache beside."""
    name = "mindscope_kernel_" + hashlib.sha256(source.encode()).hexdigest()[:24]
    if name in sys.modules:
        return sys.modules[name], True
    try:
        path = _written(name, source)
    except OSError as error:
        _log.info("kernels cannot be cached in %s (%s)", cache_folder(), error)
        module = ModuleType(name)
        exec(compile(source, f"<{name}>", "exec"), module.__dict__)
        return module, False
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # numba finds the function's globals there
    spec.loader.exec_module(module)
    return module, True


def _written(name: str, source: str) -> Path:
    """Return the file with this source; written now if it is missing or holds anything else."""
    folder = cache_folder() / "kernels"
    path = folder / f"{name}.py"
    if path.is_file() and path.read_text(encoding="utf-8") == source:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(source)
    os.replace(temporary, path)
    return path


def kernel_of(loop: FusedLoop, in_place: Mapping[int, int], layouts: Sequence[tuple[str, int]]) -> Callable[..., None]:
    """Return the loop compiled for contiguous arrays of these dtypes and numbers of axes."""
    from numba import types  # noqa: PLC0415 (numba takes longer to import than the rest of the engine)

    signature = [types.Array(getattr(types, _name(dtype)), ndim, "C") for dtype, ndim in layouts]
    return kernel_from_source(loop.source(dict(in_place)), tuple(signature))


def _name(dtype: str) -> str:
    return "boolean" if dtype == "bool" else dtype
