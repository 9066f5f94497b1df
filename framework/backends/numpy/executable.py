"""What runs: generated code bound to memory and weights.

Memory and the views into it belong to a frame. A call takes an idle frame, or makes a new one where another thread, or
an outer call of the same function, is using those that exist.
"""

import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ...context import quiet
from ...errors import EngineError
from ...ir import Where
from ...tensor import Array
from .listing import Lowered
from .plan import ALIGNMENT, MemoryPlan, plan_memory
from .threads import single_threaded_blas, thread_count

__all__ = ["StraightLine"]

_FILE = "<mindscope compiled graph>"


class _Frame:
    """Memory, and the function that computes in it, for one set of weights."""

    __slots__ = ("buffers", "run", "weights")

    def __init__(self, buffers: list[Any]) -> None:
        self.buffers = buffers
        self.weights: tuple[Any, ...] = ()
        self.run: Callable[..., Any] | None = None


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
        names: dict[str, Any] = {"empty": np.empty, "array": np.array, "asarray": np.asarray, "copyto": np.copyto}
        names |= {"ascontiguousarray": np.ascontiguousarray, "broadcast_to": np.broadcast_to}
        exec(compile(self.source, _FILE, "exec"), names)
        self._bind = names["bind"]
        self._idle: list[_Frame] = []
        self._blas = single_threaded_blas if thread_count() > 1 else nullcontext

    def memory_plan(self) -> MemoryPlan:
        """What lies where in the block of memory that one call uses."""
        return self._plan

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """The result for these arrays, one for each parameter."""
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

    def _rebind(self, frame: _Frame, weights: tuple[Any, ...]) -> None:
        for weight in weights:
            if not weight.flags.c_contiguous:
                raise EngineError(
                    f"a compiled function expects weights in C order, got one of shape {weight.shape} with strides "
                    f"{weight.strides}; make it contiguous with set_data(np.ascontiguousarray(...))"
                )
        frame.run = self._bind(self._lowered.constants, frame.buffers, weights)
        frame.weights = weights

    def _placed(self, error: Exception) -> Exception:
        """The error with the place in the user's code of the line that failed."""
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


def _are_same(bound: tuple[Any, ...], weights: tuple[Any, ...]) -> bool:
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


def _view_of(block: Array, buffer: Any) -> Array:
    part = block[buffer.offset : buffer.offset + buffer.nbytes]
    view: Array = part.view(buffer.dtype).reshape(buffer.shape)
    return view
