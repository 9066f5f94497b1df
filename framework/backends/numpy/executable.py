"""From an optimised graph to an executable: fused, ordered, lowered and bound, or run step by step with control flow.

Memory and the views into it belong to a frame. A call takes an idle frame, or makes a new one where another thread, or
an outer call of the same function, is using those that exist.
"""

import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Literal

import numpy as np

from ...compiler.graph_evaluator import Evaluator
from ...compiler.passes.fuse import Fused, fuse
from ...compiler.rewrite import rebuild
from ...context import quiet
from ...errors import EngineError
from ...ir import Apply, ConstantNode, Graph, Node, TupleType, Where
from ...ir.visit import Scopes
from ...primitive import Primitive
from ...random import Key
from ...specs import Spec
from ...tensor import Array
from . import into_kernels
from .formulas import is_element_wise
from .fused_loops import FusedLoop, kernel_of, loop_of
from .lower import lower
from .memory_plan import ALIGNMENT, Buffer, MemoryPlan, plan_memory
from .program_text import Lowered
from .threads import single_threaded_blas, thread_count

__all__ = ["Stepwise", "StraightLine", "compile_graph"]

_FILE = "<mindscope compiled graph>"


class _Frame:
    """Memory, and the function that computes in it, for one set of weights."""

    __slots__ = ("buffers", "run", "weights")

    def __init__(self, buffers: Sequence[Array | None]) -> None:
        self.buffers = buffers
        self.weights: tuple[Array | Key, ...] = ()
        self.run: Callable[..., object] | None = None


class StraightLine:
    """A compiled graph without control flow.

    Args:
        lowered: Its code.
        is_bound: For each parameter whether it is a weight: bound once, and again when the array is another.
    """

    def __init__(self, lowered: Lowered, is_bound: Sequence[bool]) -> None:
        self._lowered = lowered
        self._arguments = [i for i, bound in enumerate(is_bound) if not bound]
        self._weights = [i for i, bound in enumerate(is_bound) if bound]
        count = len(self._arguments)
        self._is_sorted = self._arguments == list(range(count))
        self._count = count
        self._plan = plan_memory(
            [b for b in lowered.buffers if b.kind == "planned"],
            sum(b.nbytes for b in lowered.buffers if b.kind == "output"),
        )
        self.source = _source(lowered)
        names: dict[str, Callable[..., Any]] = {
            "empty": np.empty,
            "array": np.array,
            "asarray": np.asarray,
            "copyto": np.copyto,
        }
        names |= {"ascontiguousarray": np.ascontiguousarray, "broadcast_to": np.broadcast_to}
        exec(compile(self.source, _FILE, "exec"), names)
        self._bind = names["bind"]
        self._idle: list[_Frame] = []
        self._blas = single_threaded_blas if thread_count() > 1 else nullcontext

    def memory_plan(self) -> MemoryPlan:
        """Return what lies where in the block of memory that one call uses."""
        return self._plan

    def __call__(self, arguments: Sequence[Array | Key]) -> object:
        """Return the result for these arrays, one for each parameter."""
        if self._is_sorted:
            inputs, weights = arguments[: self._count], tuple(arguments[self._count :])
        else:
            inputs, weights = [arguments[i] for i in self._arguments], tuple(arguments[i] for i in self._weights)
        frame = self._idle.pop() if self._idle else self._frame()
        try:
            if not _are_same(frame.weights, weights) or frame.run is None:
                self._rebind(frame, weights)
            assert frame.run is not None
            with quiet(), self._blas():
                return frame.run(*inputs)
        except (ValueError, TypeError, IndexError, ArithmeticError) as error:
            raise self._placed(error) from error
        finally:
            self._idle.append(frame)

    def _frame(self) -> _Frame:
        block = _aligned_block(self._plan.size)
        return _Frame([_view_of(block, b) if b.kind == "planned" else None for b in self._lowered.buffers])

    def _rebind(self, frame: _Frame, weights: tuple[Array | Key, ...]) -> None:
        for weight in weights:
            assert isinstance(weight, np.ndarray)
            if not weight.flags.c_contiguous:
                raise EngineError(
                    f"a compiled function expects weights in C order, got one of shape {weight.shape} with strides "
                    f"{weight.strides}; make it contiguous with set_data(np.ascontiguousarray(...))"
                )
        frame.run = self._bind(self._lowered.constants, frame.buffers, weights)
        frame.weights = weights

    def _placed(self, error: Exception) -> Exception:
        """Return the error with the place in the user's code of the line that failed."""
        for summary in reversed(traceback.extract_tb(error.__traceback__)):
            if summary.filename == _FILE and summary.lineno is not None:
                name, where = self._place(summary.lineno)
                text = f" ({where})" if str(where) else ""
                kind = type(error) if isinstance(error, EngineError) else EngineError
                return kind(f"'{name}' failed{text}: {error}")
        return error

    def _place(self, line: int) -> tuple[str, Where]:
        number = line - _header_lines(self._lowered) - 1
        places = self._lowered.places
        return places[number] if 0 <= number < len(places) else ("return", Where())


def _are_same(bound: tuple[Array | Key, ...], weights: tuple[Array | Key, ...]) -> bool:
    for i, weight in enumerate(weights):
        if bound[i] is not weight if i < len(bound) else True:
            return False
    return len(bound) == len(weights)


def _header(lowered: Lowered) -> list[str]:
    planned = [b.name for b in lowered.buffers]
    lines = ["def bind(constants, buffers, weights):"]
    for names, source in (
        ([f"k{i}" for i in range(len(lowered.constants))], "constants"),
        (planned, "buffers"),
        (lowered.weights, "weights"),
    ):
        if names:
            lines.append(f"    {', '.join(names)}, = {source}")
    return [*lines, *(f"    {line}" for line in lowered.static), f"    def run({', '.join(lowered.arguments)}):"]


def _header_lines(lowered: Lowered) -> int:
    return len(_header(lowered))


def _source(lowered: Lowered) -> str:
    body = [*lowered.lines, f"return {lowered.result}"]
    return "\n".join([*_header(lowered), *(f"        {line}" for line in body), "    return run", ""])


def _aligned_block(size: int) -> Array:
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def _view_of(block: Array, buffer: Buffer) -> Array:
    part = block[buffer.offset : buffer.offset + buffer.nbytes]
    view: Array = part.view(buffer.dtype).reshape(buffer.shape)
    return view


class Stepwise:
    """A compiled graph with control flow.

    Args:
        graph: Optimised, groups of operations applied as `Fused` graphs.
    """

    def __init__(self, graph: Graph) -> None:
        self._evaluator = Evaluator(rebuild(graph, _as_primitive))

    def __call__(self, arguments: Sequence[Array | Key]) -> object:
        """Return the result for these arrays, one for each parameter; no part of it is an argument or another part."""
        seen = {id(_owner(x)) for x in arguments if isinstance(x, np.ndarray)}
        return _apart(self._evaluator(arguments), seen)


class _KernelPrimitive(Primitive):
    """A fused kernel in the place of a primitive; it stands in no table."""

    __slots__ = ()

    def __init__(self, loop: FusedLoop) -> None:
        self.name = loop.fused.name
        self.evaluate = _allocating(loop)
        self.is_effect = False


def _as_primitive(node: Apply, inputs: list[Node], graph: Graph) -> Node | None:
    function = inputs[0]
    if not isinstance(function, ConstantNode) or not isinstance(function.value, Fused):
        return None
    kernel = ConstantNode(_KernelPrimitive(loop_of(function.value)))
    return Apply(graph, [kernel, *inputs[1:]], node.type, None, node.where)


def _allocating(loop: FusedLoop) -> Callable[..., Array | tuple[Array, ...]]:
    """Return the evaluation of a kernel that makes its results."""
    result = loop.fused.result.type
    specs = result.elements if isinstance(result, TupleType) else (result,)
    layouts = [(x.dtype, len(x.shape)) for x in (*loop.inputs, *loop.outputs)]
    kernel = kernel_of(loop, {}, layouts)

    def evaluate(*arrays: Array) -> Array | tuple[Array, ...]:
        given = [np.ascontiguousarray(x).reshape(y.shape) for x, y in zip(arrays, loop.inputs, strict=True)]
        made = [np.empty(spec.shape, spec.dtype) for spec in specs if isinstance(spec, Spec)]
        kernel(*given, *(x.reshape(y.shape) for x, y in zip(made, loop.outputs, strict=True)))
        return tuple(made) if isinstance(result, TupleType) else made[0]

    return evaluate


def _apart(value: object, seen: set[int]) -> object:
    """Return the value, arrays copied whose memory has been seen."""
    if isinstance(value, tuple):
        return tuple([_apart(part, seen) for part in value])
    if not isinstance(value, np.ndarray):
        return value
    owner = id(_owner(value))
    if owner in seen:
        return value.copy()
    seen.add(owner)
    return value


def _owner(array: Array) -> Array:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def compile_graph(graph: Graph, *, given: dict[int, Array] | None = None) -> Callable[[Sequence[Array | Key]], object]:
    """Return the graph as a callable of arrays.

    Args:
        graph: Optimised; with control flow it is run by the reference evaluator, kernels included.
        given: Arrays that outputs are to be written to, by number of the output: the arena of an optimizer.
    """
    fused = fuse(graph, _kind, _is_alone)
    if not is_straight(fused):
        return Stepwise(fused)
    is_bound = [parameter.weight is not None for parameter in fused.parameters]
    return StraightLine(lower(fused, Scopes(fused).order(fused), is_bound, given), is_bound)


def is_straight(graph: Graph) -> bool:
    """Return whether the graph calls nothing but primitives and kernels, on arrays of known shapes."""
    for node in Scopes(graph).order(graph):
        function = node.inputs[0]
        if not isinstance(function, ConstantNode) or (isinstance(function.value, Graph) and not _is_kernel(function)):
            return False
        if any(isinstance(x, ConstantNode) and isinstance(x.value, Graph) for x in node.arguments):
            return False
        if isinstance(node.type, Spec) and not all(isinstance(n, int) for n in node.type.shape):
            return False
    return all(isinstance(n, int) for p in graph.parameters if isinstance(p.type, Spec) for n in p.type.shape)


def _is_kernel(function: ConstantNode) -> bool:
    return isinstance(function.value, Fused)


def _kind(node: Apply) -> Literal["element", "sum"] | None:
    """Return the kind of loop: sums over leading axes add rows; other sums are NumPy's, whose order no neighbour
    changes."""
    if is_element_wise(node):
        return "element"
    if (node.applies("sum_to") or node.applies("sum")) and isinstance(node.type, Spec):
        x = node.arguments[0].type
        is_known = isinstance(x, Spec) and all(isinstance(length, int) for length in x.shape)
        if is_known and isinstance(x, Spec) and x.dtype == node.type.dtype and x.dtype.name in ("float32", "float64"):
            return "sum" if _keeps_rows(node, x) else None
    return None


def _keeps_rows(node: Apply, x: Spec) -> bool:
    """Return whether the innermost axis that is longer than 1 is kept by the sum."""
    long = [axis for axis, length in enumerate(x.shape) if length != 1]
    if not long:
        return False
    if node.applies("sum"):
        return long[-1] not in node.attributes["axes"]
    assert isinstance(node.type, Spec)
    place = long[-1] - len(x.shape)
    return len(node.type.shape) >= -place and node.type.shape[place] != 1


#: What gives the same bits whoever computes it: one operation of IEEE 754, or none.
_EXACT = frozenset(
    (
        "abs",
        "add",
        "broadcast_to",
        "cast",
        "divide",
        "equal",
        "greater",
        "greater_equal",
        "identity",
        "less",
        "less_equal",
    )
) | {"maximum", "minimum", "multiply", "negative", "not_equal", "sqrt", "square", "subtract", "where"}


def _is_alone(node: Apply) -> bool:
    """Return whether the operation is always a generated loop: alone it must give the bits that it gives in company.

    What is observed is cut out of its group, and an observed run computes what the unobserved one does, to the bit.
    """
    function = node.inputs[0]
    return isinstance(function, ConstantNode) and function.value.name not in _EXACT


compile_graph.writes_given = True  # type: ignore[attr-defined]
_LOADED = into_kernels  # its entries register themselves
