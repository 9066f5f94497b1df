"""Operations that move elements and leave their values alone: shapes, joins, splits and rearrangements."""

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from math import prod

import numpy as np
import numpy.typing as npt

from ..dtype import as_dtype, promote
from ..errors import ShapeError
from ..primitive import NOT_DIFFERENTIABLE, Primitive
from ..specs import Axes, Shape, Spec, normalize_axes, normalize_axis, reshaped
from ..tape_node import Gradient
from ..tensor import Tensor, method, wrap
from .create import zeros
from .indexing_ops import getitem, narrow
from .operands import as_tensor, cast_to
from .reduce import broadcast_to

_identity: Primitive = Primitive("identity", lambda x: x, lambda x: x, (lambda g, _, x: g,))
_stop_gradient: Primitive = Primitive("stop_gradient", lambda x: x, lambda x: x, NOT_DIFFERENTIABLE)


@method
def identity(x: Tensor) -> Tensor:
    """Return the same values, as a new tensor of the graph."""
    return _identity(x)


@method
def stop_gradient(x: Tensor) -> Tensor:
    """Return the same values; no gradient flows through."""
    return _stop_gradient(as_tensor(x))


_reshape: Primitive = Primitive(
    "reshape",
    lambda x, *, shape: x.reshape(shape),
    lambda x, *, shape: Spec(reshaped(x.shape, shape), x.dtype),
    (lambda g, _, x, *, shape: _reshape(g, shape=x.shape),),
    eager_vjp=lambda needs, g, _, x, *, shape: (g.reshape(x.shape),),
)


@method
def reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the elements in another shape; one length may be -1."""
    return _reshape(x, shape=tuple(shape))


@method
def flatten(x: Tensor, start: int = 0, end: int = -1) -> Tensor:
    """Return axes `start` to `end`, both included, joined into one."""
    if x.ndim == 0:
        return reshape(x, (1,))
    first, last = normalize_axis(start, x.ndim), normalize_axis(end, x.ndim)
    joined = prod(x.shape[first : last + 1])
    return reshape(x, (*x.shape[:first], joined, *x.shape[last + 1 :]))


@method
def expand_dims(x: Tensor, axis: int | Sequence[int]) -> Tensor:
    """Return the tensor with new axes of length 1, at these places of the result."""
    count = x.ndim + (1 if isinstance(axis, int) else len(axis))
    fresh = normalize_axes(axis, count)
    rest = iter(x.shape)
    return reshape(x, tuple(1 if place in fresh else next(rest) for place in range(count)))


@method
def squeeze(x: Tensor, axis: Axes = None) -> Tensor:
    """Return the tensor without its axes of length 1: those named, or all of them."""
    if axis is None:
        return reshape(x, tuple(length for length in x.shape if length != 1))
    gone = normalize_axes(axis, x.ndim)
    for place in gone:
        if x.shape[place] != 1:
            raise ShapeError(f"squeeze expects length 1 along axis {place}, got shape {x.shape}")
    return reshape(x, tuple(length for place, length in enumerate(x.shape) if place not in gone))


def _infer_transpose(x: Spec, *, axes: Shape) -> Spec:
    if sorted(normalize_axis(axis, x.ndim) for axis in axes) != list(range(x.ndim)):
        raise ShapeError(f"transpose of {x.shape} expects each of its {x.ndim} axes once, got {axes}")
    return Spec(tuple(x.shape[axis] for axis in axes), x.dtype)


_transpose: Primitive = Primitive(
    "transpose",
    lambda x, *, axes: x.transpose(axes),
    _infer_transpose,
    (lambda g, _, x, *, axes: _transpose(g, axes=tuple(axes.index(i) for i in range(len(axes)))),),
    eager_vjp=lambda needs, g, _, x, *, axes: (g.transpose([axes.index(i) for i in range(len(axes))]),),
)


@method
def transpose(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Return the axes in another order, reversed by default."""
    order = range(x.ndim - 1, -1, -1) if axes is None else (axis % x.ndim for axis in axes)
    return _transpose(x, axes=tuple(order))


_swapaxes: Primitive = Primitive(
    "swapaxes",
    lambda x, *, first, second: x.swapaxes(first, second),
    lambda x, *, first, second: _infer_swap(x, first, second),
    (lambda g, _, x, *, first, second: _swapaxes(g, first=first, second=second),),
    eager_vjp=lambda needs, g, _, x, *, first, second: (g.swapaxes(first, second),),
)


def _infer_swap(x: Spec, first: int, second: int) -> Spec:
    shape = list(x.shape)
    i, j = normalize_axis(first, x.ndim), normalize_axis(second, x.ndim)
    shape[i], shape[j] = shape[j], shape[i]
    return Spec(tuple(shape), x.dtype)


@method
def swapaxes(x: Tensor, first: int, second: int) -> Tensor:
    """Return two axes exchanged."""
    return _swapaxes(x, first=first, second=second)


@method
def cast(x: Tensor, dtype: npt.DTypeLike) -> Tensor:
    """Return the values in another element type; gradients flow back in the former."""
    return cast_to(x, as_dtype(dtype))


def _infer_concat(*parts: Spec, axis: int) -> Spec:
    first, place = parts[0], normalize_axis(axis, parts[0].ndim)
    for part in parts[1:]:
        if part.ndim != first.ndim or any(
            a != b for i, (a, b) in enumerate(zip(first.shape, part.shape, strict=True)) if i != place
        ):
            raise ShapeError(f"concat along axis {axis} expects equal other axes, got {first.shape} and {part.shape}")
    total = sum(part.shape[place] for part in parts)
    return Spec((*first.shape[:place], total, *first.shape[place + 1 :]), first.dtype)


def _concat_gradient(needs: Sequence[bool], g: Tensor, _: None, *parts: Tensor, axis: int) -> list[Tensor | None]:
    cuts = _split.several(g, sizes=tuple(part.shape[axis] for part in parts), axis=axis)
    return [cut if need else None for cut, need in zip(cuts, needs, strict=True)]


_concat: Primitive = Primitive(
    "concat", lambda *parts, axis: np.concatenate(parts, axis=axis), _infer_concat, _concat_gradient
)


def concat(parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Return the tensors one after the other along `axis`."""
    if not parts:
        raise ShapeError("concat expects one tensor or more, got none")
    dtype = reduce(promote, (part.dtype for part in parts))
    return _concat(*(cast_to(part, dtype) for part in parts), axis=normalize_axis(axis, parts[0].ndim))


def stack(parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Return the tensors side by side along a new axis."""
    return concat([expand_dims(part, axis) for part in parts], axis)


def _cuts(sizes: Shape, axis: int) -> list[tuple[slice, ...]]:
    """Return the index of every part."""
    ends = list(accumulate(sizes))
    return [(*(slice(None),) * axis, slice(end - size, end)) for size, end in zip(sizes, ends, strict=True)]


def _infer_split(x: Spec, *, sizes: Shape, axis: int) -> tuple[Spec, ...]:
    return tuple(Spec((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype) for size in sizes)


def _split_gradient(needs: object, g: Gradient, _: None, x: Tensor, *, sizes: Shape, axis: int) -> tuple[Tensor]:
    given = (g,) if isinstance(g, Tensor) else g
    parts = [
        zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype) if part is None else part
        for part, size in zip(given, sizes, strict=True)
    ]
    return (_concat(*parts, axis=axis),)


_split: Primitive = Primitive(
    "split",
    lambda x, *, sizes, axis: tuple([x[cut] for cut in _cuts(sizes, axis)]),
    _infer_split,
    _split_gradient,
)


@method
def split(x: Tensor, sizes: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Return the tensor cut along `axis` into parts of these lengths, or of one length (the last may be shorter)."""
    place = normalize_axis(axis, x.ndim)
    length = x.shape[place]
    if isinstance(sizes, int):
        if sizes < 1:
            raise ShapeError(f"split expects a length of 1 or more, got {sizes}")
        sizes = [min(sizes, length - start) for start in range(0, length, sizes)]
    if sum(sizes) != length or min(sizes, default=0) < 0:
        raise ShapeError(
            f"split along axis {axis} of {x.shape} expects lengths that add up to {length}, got {tuple(sizes)}"
        )
    if len(sizes) == 1:
        return (identity(x),)  # a primitive has one output, or two and more
    return _split.several(x, sizes=tuple(sizes), axis=place)


@method
def halves(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return the two halves along `axis`."""
    length = x.shape[normalize_axis(axis, x.ndim)]
    if length % 2:
        raise ShapeError(f"two halves along axis {axis} expect an even length, got shape {x.shape}")
    first, second = split(x, length // 2, axis)
    return first, second


@method
def permute(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return the axes in another order: `transpose` under its other name."""
    return transpose(x, axes)


@method
def moveaxis(x: Tensor, source: int | Sequence[int], target: int | Sequence[int]) -> Tensor:
    """Return axes moved from their places to others; the rest keeps its order."""
    sources = (source,) if isinstance(source, int) else tuple(source)
    targets = (target,) if isinstance(target, int) else tuple(target)
    start = [normalize_axis(axis, x.ndim) for axis in sources]
    end = [normalize_axis(axis, x.ndim) for axis in targets]
    if len(set(start)) != len(start) or len(set(end)) != len(end) or len(start) != len(end):
        raise ShapeError(f"moveaxis expects as many targets as sources, each once, got {sources} and {targets}")
    order = [axis for axis in range(x.ndim) if axis not in start]
    for place, axis in sorted(zip(end, start, strict=True)):
        order.insert(place, axis)
    return transpose(x, order)


@method
def flip(x: Tensor, axis: Axes = None) -> Tensor:
    """Return the elements in reverse order along `axis`, along all of them by default."""
    turned = normalize_axes(axis, x.ndim)
    return getitem(x, tuple(slice(None, None, -1) if i in turned else slice(None) for i in range(x.ndim)))


@method
def roll(x: Tensor, shift: int | Sequence[int], axis: Axes = None) -> Tensor:
    """Return the elements moved along `axis`, those that fall off the end put in at the start.

    Args:
        x: Any tensor.
        shift: How far, for each axis; negative towards the start.
        axis: Along which; None moves within the flat tensor.
    """
    if axis is None:
        if not isinstance(shift, int):
            raise ShapeError("roll by several shifts expects as many axes")
        return reshape(roll(reshape(x, (-1,)), shift, 0), x.shape)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
    for by, place in zip(shifts, (normalize_axis(i, x.ndim) for i in axes), strict=True):
        length = x.shape[place]
        cut = length - by % length if length else 0
        if cut not in (0, length):
            x = concat([narrow(x, place, cut, length), narrow(x, place, 0, cut)], place)
    return x


@method
def rot90(x: Tensor, turns: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
    """Return the tensor turned by quarters, from the first of the axes towards the second."""
    first, second = (normalize_axis(axis, x.ndim) for axis in axes)
    if first == second:
        raise ShapeError(f"rot90 expects two axes, got {axes}")
    turns %= 4
    if turns == 2:
        return flip(x, (first, second))
    if turns == 1:
        return flip(x, second).swapaxes(first, second)
    return flip(x.swapaxes(first, second), second) if turns else x


@method
def tile(x: Tensor, repeats: Sequence[int]) -> Tensor:
    """Return the tensor repeated `repeats[i]` times along axis `i`, counted from the last axis; new axes come in
    front."""
    if any(count < 0 for count in repeats):
        raise ShapeError(f"tile expects counts of 0 or more, got {tuple(repeats)}")
    shape = (*(1,) * (len(repeats) - x.ndim), *x.shape)
    counts = (*(1,) * (len(shape) - len(repeats)), *repeats)
    split_shape = tuple(n for length in shape for n in (1, length))
    full = tuple(n for length, count in zip(shape, counts, strict=True) for n in (count, length))
    final = tuple(length * count for length, count in zip(shape, counts, strict=True))
    return reshape(broadcast_to(reshape(x, split_shape), full), final)


@method
def repeat(x: Tensor, repeats: int | Sequence[int], axis: int | None = None) -> Tensor:
    """Return each element (slice along `axis`) repeated, one after the other.

    Args:
        x: Any tensor.
        repeats: How often, for each or for all.
        axis: Along which; None for the elements of the flat tensor.
    """
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    place = normalize_axis(axis, x.ndim)
    if not isinstance(repeats, int):
        numbers = np.repeat(np.arange(x.shape[place]), np.asarray(repeats))
        return getitem(x, (*(slice(None),) * place, wrap(numbers)))
    shape = x.shape
    wide = broadcast_to(expand_dims(x, place + 1), (*shape[: place + 1], repeats, *shape[place + 1 :]))
    return reshape(wide, (*shape[:place], shape[place] * repeats, *shape[place + 1 :]))


@method
def expand(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the tensor broadcast to a shape, in which -1 keeps a length; a 1 keeps it too, as in ONNX."""
    front = len(shape) - x.ndim
    full = (*(1,) * max(0, front), *x.shape)
    wanted = (*(1,) * max(0, -front), *shape)
    return broadcast_to(x, [have if want in (-1, 1) else want for want, have in zip(wanted, full, strict=True)])


@method
def unstack(x: Tensor, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along `axis`, without that axis."""
    place = normalize_axis(axis, x.ndim)
    return tuple(squeeze(part, place) for part in split(x, 1, place))


@method
def chunk(x: Tensor, parts: int, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the tensor cut along `axis` into at most so many parts of one length; the last may be shorter."""
    if parts < 1:
        raise ShapeError(f"chunk expects a part or more, got {parts}")
    length = x.shape[normalize_axis(axis, x.ndim)]
    return split(x, max(1, (length + parts - 1) // parts), axis)


@method
def unflatten(x: Tensor, axis: int, lengths: Sequence[int]) -> Tensor:
    """Return one axis divided into several of these lengths; one of them may be -1."""
    place = normalize_axis(axis, x.ndim)
    known = int(np.prod([n for n in lengths if n != -1]))
    filled = tuple(x.shape[place] // known if n == -1 else n for n in lengths)
    return reshape(x, (*x.shape[:place], *filled, *x.shape[place + 1 :]))


@method
def ravel(x: Tensor) -> Tensor:
    """Return all elements along one axis."""
    return flatten(x)


@method
def depth_to_space(x: Tensor, block: int, mode: str = "DCR") -> Tensor:
    """Turn `(n, c, h, w)` into `(n, c / block**2, h block, w block)`: channels become pixels of blocks.

    Args:
        x: Images.
        block: Side of a block.
        mode: "DCR", the block's place is the slower part of the channel's number, or "CRD", the faster (PyTorch).
    """
    n, c, h, w = x.shape
    if c % (block * block) or mode not in ("DCR", "CRD"):
        raise ShapeError(
            f"depth_to_space expects channels in multiples of {block * block}, and mode 'DCR' or 'CRD'; "
            f"got {c} and {mode!r}"
        )
    deep = c // (block * block)
    if mode == "DCR":
        apart = transpose(reshape(x, (n, block, block, deep, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        apart = transpose(reshape(x, (n, deep, block, block, h, w)), (0, 1, 4, 2, 5, 3))
    return reshape(apart, (n, deep, h * block, w * block))


@method
def space_to_depth(x: Tensor, block: int) -> Tensor:
    """Turn `(n, c, h, w)` into `(n, c block**2, h / block, w / block)`: the inverse of `depth_to_space` in mode
    "DCR"."""
    n, c, h, w = x.shape
    if h % block or w % block:
        raise ShapeError(f"space_to_depth expects sides in multiples of {block}, got {h} and {w}")
    apart = transpose(reshape(x, (n, c, h // block, block, w // block, block)), (0, 3, 5, 1, 2, 4))
    return reshape(apart, (n, c * block * block, h // block, w // block))


@method
def pixel_shuffle(x: Tensor, factor: int) -> Tensor:
    """Return `depth_to_space` in PyTorch's order of channels.

    Reference:
        Shi et al. 2016, arXiv:1609.05158.
    """
    return depth_to_space(x, factor, "CRD")
