"""`vmap`, the transformation."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

from ..errors import ShapeError
from ..ops.layout import transpose
from ..random import BETWEEN, Key
from ..tensor import Tensor
from .batched import BatchedKey, BatchedTensor, BatchingError, VmapLevel, all_samples

_P = ParamSpec("_P")
_R = TypeVar("_R")

_DEPTH: ContextVar[int] = ContextVar("vmap_depth", default=0)


def vmap(
    fn: Callable[_P, _R],
    in_axes: object = 0,
    out_axes: object = 0,
    *,
    randomness: Literal["error", "same", "different"] = "error",
) -> Callable[_P, _R]:
    """Return a function that maps `fn` over an axis of its arguments.

    `fn` runs once, on tensors that stand for one sample each; every primitive works on all samples at once. Inside,
    `grad` gives gradients for each sample, of parameters too; `vmap` nests.

    Args:
        fn: Takes and returns tensors, and tuples, lists and dicts of them. It may not ask for values.
        in_axes: Which axis of the arguments counts the samples: a number for all tensors, None where an argument is
            the same for each sample; or a tuple with an entry an argument, each a number, None, or a container of the
            argument's structure. Tensors in keyword arguments are mapped over axis 0.
        out_axes: Where the samples stand in the outputs; a number, or a container of the output's structure.
        randomness: What keys taken from the context, and dropout, do: "different" in every sample, "same" in all, or
            an "error". A key given explicitly gives every sample the same numbers, as everywhere.

    Raises:
        ShapeError: The mapped axes differ in length, or nothing is mapped.
        BatchingError: A primitive without a batching rule, or code that asks a sample for its values.

    Example:
        >>> per_sample = vmap(grad(loss), in_axes=(None, 0))(weights, images)
    """
    if randomness not in ("error", "same", "different"):
        raise ValueError(f"vmap expects randomness 'error', 'same' or 'different', got {randomness!r}")

    @wraps(fn)
    def mapped(*arguments: _P.args, **options: _P.kwargs) -> _R:
        axes = _axes_of(in_axes, arguments)
        sizes = dict.fromkeys(_sizes((arguments, options), (axes, dict.fromkeys(options, 0)), "argument"))
        if len(sizes) != 1:
            what = f"got {' and '.join(map(str, sizes))}" if sizes else "but none is"
            raise ShapeError(f"vmap of '{_name(fn)}' expects mapped axes of one length, {what}; see in_axes")
        with _running(next(iter(sizes)), randomness) as level:
            inside = _each((arguments, options), (axes, dict.fromkeys(options, 0)), lambda x, a: _enter(x, a, level))
            output = fn(*inside[0], **inside[1])
            outside: _R = _each(output, out_axes, lambda y, axis: _leave(y, axis, level))
            return outside

    return mapped


@contextmanager
def _running(size: int, randomness: str) -> Iterator[VmapLevel]:
    level = VmapLevel(_DEPTH.get() + 1, size, randomness)
    depth = _DEPTH.set(level.depth)
    outer = BETWEEN.get()

    def key_of(source: Callable[[], Key]) -> Key:
        if randomness == "error":
            raise BatchingError(
                "a random key was taken from the context inside vmap(randomness='error'); pass randomness='different' "
                "or 'same', or give a key explicitly"
            )
        key = source() if outer is None else outer(source)
        return BatchedKey(key, level) if randomness == "different" else key

    keys = BETWEEN.set(key_of)
    try:
        yield level
    finally:
        BETWEEN.reset(keys)
        _DEPTH.reset(depth)
        level.is_over = True


def _name(fn: object) -> str:
    return getattr(fn, "__name__", type(fn).__name__)


def _axes_of(in_axes: object, arguments: tuple[object, ...]) -> tuple[object, ...]:
    if in_axes is None or isinstance(in_axes, int):
        return (in_axes,) * len(arguments)
    if not isinstance(in_axes, tuple | list) or len(in_axes) != len(arguments):
        raise ShapeError(
            f"in_axes expects a number, None, or an entry for each of {len(arguments)} arguments, got {in_axes!r}"
        )
    return tuple(in_axes)


def _each(tree: object, axes: object, change: Callable[[object, Any], object]) -> Any:
    """Return the tree with its leaves changed, each with the axis that stands at its place or above it."""
    if isinstance(tree, dict):
        return {key: _each(part, axes[key] if isinstance(axes, dict) else axes, change) for key, part in tree.items()}
    if isinstance(tree, tuple | list):
        below = axes if isinstance(axes, tuple | list) else (axes,) * len(tree)
        if len(below) != len(tree):
            raise ShapeError(f"vmap was given {len(below)} axes for {len(tree)} values: {axes!r}")
        parts = [_each(part, axis, change) for part, axis in zip(tree, below, strict=True)]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return change(tree, axes)


def _sizes(tree: object, axes: object, what: str) -> Iterator[int]:
    """Return the lengths of all mapped axes."""
    found: list[int] = []

    def measure(x: object, axis: int | None) -> None:
        if isinstance(x, Tensor) and axis is not None:
            if not -x.ndim <= axis < x.ndim:
                raise ShapeError(f"vmap cannot map axis {axis} of an {what} of shape {x.shape}; see in_axes")
            found.append(x.shape[axis])

    _each(tree, axes, measure)
    return iter(found)


def _moved(x: Tensor, source: int, target: int) -> Tensor:
    """Return the tensor with one axis at another place."""
    source, target = source % x.ndim, target % x.ndim
    if source == target:
        return x
    rest = [axis for axis in range(x.ndim) if axis != source]
    return transpose(x, (*rest[:target], source, *rest[target:]))


def _enter(x: object, axis: int | None, level: VmapLevel) -> object:
    return BatchedTensor(_moved(x, axis, 0), level) if isinstance(x, Tensor) and axis is not None else x


def _leave(y: object, axis: int | None, level: VmapLevel) -> object:
    if y is None or not isinstance(y, Tensor | bool | int | float):
        return y
    if axis is None:
        if isinstance(y, BatchedTensor) and y.level is level:
            raise ShapeError("out_axes=None expects an output that is the same for each sample, got a mapped one")
        return y
    return _moved(all_samples(y, level), 0, axis)
