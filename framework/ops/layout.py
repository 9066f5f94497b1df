"""Elements in other places: turned, rolled, repeated, regrouped. All of it made of reshapes, transposes and slices."""

from collections.abc import Sequence

import numpy as np

from ..errors import ShapeError
from ..shape import Axes, normalize_axes, normalize_axis
from ..tensor import Tensor, method, wrap
from .array import expand_dims, flatten, reshape, squeeze, transpose
from .indexing import getitem, narrow
from .join import concat, split
from .reduce import broadcast_to


@method
def permute(x: Tensor, axes: Sequence[int]) -> Tensor:
    """The axes in another order: `transpose` under its other name."""
    return transpose(x, axes)


@method
def moveaxis(x: Tensor, source: int | Sequence[int], target: int | Sequence[int]) -> Tensor:
    """Axes moved from their places to others; the rest keeps its order."""
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
    """The elements in reverse order along `axis`, along all of them by default."""
    turned = normalize_axes(axis, x.ndim)
    return getitem(x, tuple(slice(None, None, -1) if i in turned else slice(None) for i in range(x.ndim)))


@method
def roll(x: Tensor, shift: int | Sequence[int], axis: Axes = None) -> Tensor:
    """The elements moved along `axis`, those that fall off the end put in at the start.

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
    """The tensor turned by quarters, from the first of the axes towards the second."""
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
    """The tensor repeated `repeats[i]` times along axis `i`, counted from the last axis; new axes come in front."""
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
    """Each element (slice along `axis`) repeated, one after the other.

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
    """The tensor broadcast to a shape, in which -1 keeps a length; a 1 keeps it too, as in ONNX."""
    front = len(shape) - x.ndim
    full = (*(1,) * max(0, front), *x.shape)
    wanted = (*(1,) * max(0, -front), *shape)
    return broadcast_to(x, [have if want in (-1, 1) else want for want, have in zip(wanted, full, strict=True)])


@method
def unstack(x: Tensor, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along `axis`, without that axis."""
    place = normalize_axis(axis, x.ndim)
    return tuple(squeeze(part, place) for part in split(x, 1, place))


@method
def chunk(x: Tensor, parts: int, axis: int = 0) -> tuple[Tensor, ...]:
    """The tensor cut along `axis` into at most so many parts of one length; the last may be shorter."""
    if parts < 1:
        raise ShapeError(f"chunk expects a part or more, got {parts}")
    length = x.shape[normalize_axis(axis, x.ndim)]
    return split(x, max(1, (length + parts - 1) // parts), axis)


@method
def unflatten(x: Tensor, axis: int, lengths: Sequence[int]) -> Tensor:
    """One axis divided into several of these lengths; one of them may be -1."""
    place = normalize_axis(axis, x.ndim)
    known = int(np.prod([n for n in lengths if n != -1]))
    filled = tuple(x.shape[place] // known if n == -1 else n for n in lengths)
    return reshape(x, (*x.shape[:place], *filled, *x.shape[place + 1 :]))


@method
def ravel(x: Tensor) -> Tensor:
    """All elements along one axis."""
    return flatten(x)


@method
def depth_to_space(x: Tensor, block: int, mode: str = "DCR") -> Tensor:
    """`(n, c, h, w)` to `(n, c / block**2, h block, w block)`: channels become pixels of blocks.

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
    """`(n, c, h, w)` to `(n, c block**2, h / block, w / block)`: the inverse of `depth_to_space` in mode "DCR"."""
    n, c, h, w = x.shape
    if h % block or w % block:
        raise ShapeError(f"space_to_depth expects sides in multiples of {block}, got {h} and {w}")
    apart = transpose(reshape(x, (n, c, h // block, block, w // block, block)), (0, 3, 5, 1, 2, 4))
    return reshape(apart, (n, c * block * block, h // block, w // block))


@method
def pixel_shuffle(x: Tensor, factor: int) -> Tensor:
    """`depth_to_space` in PyTorch's order of channels.

    Reference:
        Shi et al. 2016, arXiv:1609.05158.
    """
    return depth_to_space(x, factor, "CRD")
