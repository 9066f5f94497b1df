"""Whether a sequence model's output depends on input at later positions; found by changing that input."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import NotWatchable, ProbeError
from ..tensor_access import Access, Tensor, tensors_in

_Array = NDArray[Any]  # the element type varies at run time
#: Relative to the output's size: kernels may round differently from call to call, a leak moves far more (our choice).
_ROUNDING: Final = 1e-5
_TIMES_THE_NOISE: Final = 10.0


class NotASequence(ProbeError, ValueError):
    """The sample or the model has no positions to compare."""


@dataclass(frozen=True, slots=True)
class Causality:
    """The result of changing the input at single positions.

    Args:
        is_causal: No output moved before the position that was changed; None where no position sees any other.
        changed: The latest position whose change an earlier output felt, -1 if none did.
        first_output: The earliest output that felt it, -1 likewise.
        difference: How far that output moved, in absolute value.
        noise: How far outputs move between two calls with the same input.
        axis: Along which the positions lie.
        positions: Their number.
    """

    is_causal: bool | None
    changed: int = -1
    first_output: int = -1
    difference: float = 0.0
    noise: float = 0.0
    axis: int = 1
    positions: int = 0


class ModelCaller(Protocol):
    """Calls a model of one framework without leaving a trace."""

    access: Access

    def quiet(self) -> AbstractContextManager[object]:
        """Enter evaluation mode without gradients; restore flags, buffers and random generators at the end."""

    def call(self, arguments: tuple[object, ...], keywords: Mapping[str, object]) -> object:
        """Call the model and return its output."""

    def like(self, array: _Array, tensor: Tensor) -> Tensor:
        """Convert the array to a tensor of the same dtype, on the same device."""


def causality_of(caller: ModelCaller, arguments: tuple[object, ...], keywords: Mapping[str, object]) -> Causality:
    """Measure what the model does with a sample whose positions are changed one by one.

    The sample's first tensor of integers `(batch, positions)`, or of reals with more axes, is changed at the first, the
    middle and the last position. The axis of the positions is 1, or 0 if nothing travels along 1.

    Raises:
        NotASequence: The sample has no such tensor, or the output has not its positions.
    """
    source = _source(caller.access, (arguments, keywords))
    original = np.array(_read(caller.access, source))

    def output_of(array: _Array) -> NDArray[np.float64]:
        fresh = caller.like(array, source)
        replaced = _replaced((arguments, dict(keywords)), source, fresh)
        result = next((tensor for _, tensor in tensors_in(caller.call(*replaced), caller.access)), None)
        if result is None:
            raise NotASequence("the model returns no tensor of real numbers; give a sample that it gives scores for")
        return np.array(caller.access.array(result), dtype=np.float64)

    with caller.quiet():
        base = output_of(original)
        noise = float(np.abs(output_of(original) - base).max(initial=0.0))
        limit = max(_TIMES_THE_NOISE * noise, _ROUNDING * float(np.abs(base).max(initial=0.0)))
        found = [_along(axis, original, base, output_of, limit) for axis in _axes(original, base)]
    best = next((candidate for candidate in found if candidate.is_causal is not None), found[0])
    return replace(best, noise=noise)


def _along(
    axis: int,
    original: _Array,
    base: NDArray[np.float64],
    output_of: Callable[[_Array], NDArray[np.float64]],
    limit: float,
) -> Causality:
    length = original.shape[axis]
    travels, leak = False, (-1, -1, 0.0)
    for position in sorted({0, length // 2, length - 1}):
        moved = _by_position(np.abs(output_of(_changed(original, axis, position)) - base), original.shape, axis)
        felt = np.flatnonzero(moved > limit)
        travels |= bool((felt != position).any())
        if felt.size and felt[0] < position:
            leak = (position, int(felt[0]), float(moved[felt[0]]))
    if not travels:
        return Causality(None, axis=axis, positions=length)
    return Causality(leak[0] < 0, *leak, axis=axis, positions=length)


def _by_position(moved: NDArray[np.float64], shape: tuple[int, ...], axis: int) -> NDArray[np.float64]:
    """Return `(positions,)`, the largest change at each."""
    if axis == 1 and moved.shape[0] == shape[0] * shape[1]:
        moved = moved.reshape(shape[0], shape[1], -1)
    others = tuple(at for at in range(moved.ndim) if at != axis)
    largest: NDArray[np.float64] = moved.max(axis=others)
    return largest


def _axes(original: _Array, base: NDArray[np.float64]) -> list[int]:
    shape = original.shape
    found = [axis for axis in (1, 0) if base.ndim > axis and base.shape[axis] == shape[axis] > 1]
    if base.ndim and base.shape[0] == shape[0] * shape[1] and 1 not in found:
        found.insert(0, 1)
    if not found:
        raise NotASequence(
            f"the output {base.shape} has no axis of the positions of the input {shape}; only models that answer "
            f"position by position can be checked"
        )
    return found


def _changed(original: _Array, axis: int, position: int) -> _Array:
    """Change the sample at one position: to other tokens that occur in it, or reals moved by their spread."""
    array = original.copy()
    index = (slice(None),) * axis + (position,)
    if array.dtype.kind in "iu":
        tokens = np.unique(original)
        if tokens.size == 1:
            tokens = np.array([0, max(1, int(tokens[0]))], dtype=array.dtype)
        array[index] = tokens[(np.searchsorted(tokens, array[index]) + 1) % tokens.size]
    else:
        spread = float(np.std(original.astype(np.float64))) or 1.0
        array[index] = (array[index].astype(np.float64) * -1.0 + spread).astype(array.dtype)
    return array


def _read(access: Access, tensor: Tensor) -> _Array:
    return access.array(tensor)


def _source(access: Access, sample: object) -> Tensor:
    for tensor in _tensors(access.kind, sample):
        array = _read(access, tensor)
        is_real = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
        if array.ndim >= 2 + is_real and (is_real or array.dtype.kind in "iu") and array.size:
            return tensor
    raise NotASequence(
        "a sample must hold integers (batch, positions) or reals (batch, positions, ...), got none of these; "
        "pass the model's own input"
    )


def _tensors(kind: type, value: object) -> Iterator[Tensor]:
    if isinstance(value, kind):
        yield value
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _tensors(kind, inner)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _tensors(kind, inner)


def _replaced(value: Any, old: Tensor, new: Tensor) -> Any:
    """Replace one tensor by another in a nested value."""
    if value is old:
        return new
    if isinstance(value, dict):
        return type(value)({key: _replaced(inner, old, new) for key, inner in value.items()})
    if type(value) in (list, tuple):
        return type(value)(_replaced(inner, old, new) for inner in value)
    return value


_CALLERS = (
    # module and class of models, and the class that calls them; the module must be loaded already
    ("torch.nn", "Module", "..adapters.torch.torch_facts", "TorchFrame"),
    ("mindscope.framework.nn.cell", "Cell", "..adapters.engine.engine_facts", "EngineFrame"),
)


def check_causality(model: object, *sample: object, **keywords: object) -> Causality:
    """Check whether any output of the model depends on input at a later position.

    The model is called a few times in evaluation mode, without gradients; training flags, buffers and the generators of
    random numbers are as before afterwards. What a module keeps elsewhere, in plain attributes, is not put back.

    Args:
        model: A torch Module or an engine Cell that answers position by position.
        sample: What the model is called with, as `keywords`. Its first tensor of integers `(batch, positions)`, or of
            reals with more axes, is changed at the first, the middle and the last position.

    Raises:
        NotWatchable: The model is of no known framework.
        NotASequence: The sample has no positions, or the output has not the same.
    """
    for module, kind, module_name, name in _CALLERS:
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(model, getattr(loaded, kind)):
            caller: ModelCaller = getattr(import_module(module_name, __package__), name)(model)
            return causality_of(caller, sample, keywords)
    raise NotWatchable(
        f"model must be a torch.nn.Module or a mindscope.framework.nn.Cell, got {type(model).__name__}; "
        f"pass the model itself"
    )


__all__: list[str] = ["check_causality"]
