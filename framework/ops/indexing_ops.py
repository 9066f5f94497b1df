"""`x[index]` and its transpose, with NumPy's indices as inputs of the primitive; and padding.

An index is a tuple of parts. What is static stands in the attribute `index` (integers, `Slice`, None, Ellipsis); an
array is a positional input, and `ARRAY` holds its place, so that a compiled function indexes by what it is given.
"""

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..dtype import Dtype
from ..errors import DataDependentShape, DtypeError, ShapeError
from ..primitive import Primitive
from ..specs import Shape, Spec, broadcast_shapes
from ..symbolic import Dim
from ..tensor import Array, Tensor, method, wrap

ARRAY = "array"


class Slice(NamedTuple):
    """A slice that can be hashed."""

    start: int | None
    stop: int | None
    step: int | None


#: One part of an index; the string is `ARRAY`.
Part: TypeAlias = int | Dim | Slice | EllipsisType | str | None
_Index: TypeAlias = tuple[Part, ...]


def _numpy_index(index: _Index, arrays: Sequence[Array]) -> tuple[Any, ...]:
    """Return the index as NumPy wants it."""
    rest = iter(arrays)
    return tuple(slice(*part) if isinstance(part, Slice) else next(rest) if part == ARRAY else part for part in index)


def slice_length(length: int, part: Slice) -> int:
    """Return how many elements a slice takes from an axis of that length."""
    step = 1 if part.step is None else part.step
    if part.start is None and part.stop is None and step in (1, -1):
        return length
    low, high = (0, length) if step > 0 else (-1, length - 1)
    start = (low if step > 0 else high) if part.start is None else _bounded(part.start, length, low, high)
    stop = (high if step > 0 else low) if part.stop is None else _bounded(part.stop, length, low, high)
    count = (stop - start + step - 1) // step if step > 0 else (start - stop - step - 1) // -step
    return count if count > 0 else 0


def _bounded(place: int, length: int, low: int, high: int) -> int:
    place = place + length if place < 0 else place
    return low if place < low else high if place > high else place


def _expanded(index: _Index, ndim: int) -> _Index:
    """Return the index with one part an axis: Ellipsis and what was left out become full slices."""
    taken = sum(part is not None and part is not Ellipsis for part in index)
    if taken > ndim:
        raise ShapeError(f"too many indices for a tensor of {ndim} axes: {taken} were given")
    full = (Slice(None, None, None),) * (ndim - taken)
    if Ellipsis not in index:
        return index + full
    place = index.index(Ellipsis)
    return index[:place] + full + index[place + 1 :]


def _infer_getitem(x: Spec, *arrays: Spec, index: _Index) -> Spec:
    if any(array.dtype.kind == "b" for array in arrays):
        raise DataDependentShape.of("x[mask]", "ops.where or ops.masked_fill")
    picked = broadcast_shapes(*(array.shape for array in arrays)) if arrays else ()
    shape: list[int] = []
    first, axis = None, 0
    for part in _expanded(index, len(x.shape)):
        if part is None:
            shape.append(1)
            continue
        length = x.shape[axis]
        axis += 1
        if isinstance(part, Slice):
            shape.append(slice_length(length, part))
            continue
        if isinstance(part, int | Dim) and not -length <= part < length:
            raise ShapeError(f"index {part} is out of bounds for axis {axis - 1} of length {length}")
        first = len(shape) if first is None else first
    where = first if first is not None and _are_together(index) else 0
    return Spec((*shape[:where], *picked, *shape[where:]), x.dtype)


def _are_together(index: _Index) -> bool:
    """Return whether integers and arrays stand side by side: only then the picked axes take their place, else they
    lead."""
    places = [i for i, part in enumerate(index) if part == ARRAY or isinstance(part, int)]
    return places[-1] - places[0] == len(places) - 1


def _put_of(g: Array, *arrays: Array, index: _Index, shape: Shape) -> Array:
    result = np.zeros(shape, g.dtype)
    place = _numpy_index(index, arrays)
    if arrays:
        np.add.at(result, place, g)
    else:
        result[place] = g  # a view, in which no element appears twice
    return result


_getitem: Primitive = Primitive(
    "getitem",
    lambda x, *arrays, index: x[_numpy_index(index, arrays)],
    _infer_getitem,
    lambda needs, g, _, x, *arrays, index: (_put(g, *arrays, index=index, shape=x.shape), *(None,) * len(arrays)),
)
_put: Primitive = Primitive(
    "put",
    _put_of,
    lambda g, *arrays, index, shape: Spec(tuple(shape), g.dtype),
    lambda needs, gg, _, g, *arrays, index, shape: (_getitem(gg, *arrays, index=index), *(None,) * len(arrays)),
)


def _parts(index: object) -> tuple[_Index, list[Tensor]]:
    """Return the static template of an index, and its arrays."""
    template: list[Part] = []
    arrays: list[Tensor] = []
    for part in index if isinstance(index, tuple) else (index,):
        if part is None or part is Ellipsis:
            template.append(part)
        elif isinstance(part, slice):
            template.append(Slice(*(None if x is None else _integer(x) for x in (part.start, part.stop, part.step))))
        elif isinstance(part, bool | np.bool_ | list | np.ndarray):
            found = _static(np.asarray(part))
            template += [ARRAY] * len(found)
            arrays += found
        elif isinstance(part, Tensor):
            if part.dtype.kind not in "iub":
                raise DtypeError(f"an index must be an integer or bool tensor, got {part.dtype}")
            template.append(ARRAY)
            arrays.append(part)
        else:
            template.append(_integer(part))
    return tuple(template), arrays


def _static(array: Array) -> list[Tensor]:
    """Return an array that is known: a mask becomes the places where it holds."""
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iub":
        raise DtypeError(f"an index must be an integer or bool array, got {array.dtype}")
    if array.dtype.kind == "b" and array.ndim:
        return [Tensor(places) for places in np.nonzero(array)]
    return [Tensor(array)]


def _integer(part: object) -> Any:
    """Return a Python integer for whatever stands for one; a symbolic length stays what it is."""
    if isinstance(part, int | Dim):
        return part
    if hasattr(part, "__index__"):
        return part.__index__()
    raise DtypeError(
        f"an index must consist of integers, slices, None, ... and integer or bool tensors, got {type(part).__name__}"
    )


@method
def getitem(x: Tensor, index: object) -> Tensor:
    """Return `x[index]` with everything NumPy takes as an index; integer and bool tensors too.

    Raises:
        DataDependentShape: In a compiled function the index is a bool tensor: how much it picks is not known.
    """
    template, arrays = _parts(index)
    return _getitem(x, *arrays, index=template)


def narrow(x: Tensor, axis: int, start: int, end: int) -> Tensor:
    """Return elements `start` to `end` (not included) along `axis`."""
    return getitem(x, (*(slice(None),) * axis, slice(start, end)))


_Widths: TypeAlias = tuple[tuple[int, int], ...]

# The words of PyTorch beside those of NumPy.
_MODES = {
    "reflect": "reflect", "symmetric": "symmetric", "edge": "edge", "replicate": "edge", "wrap": "wrap",
    "circular": "wrap",
}  # fmt: skip


def _check(shape: Sequence[int], widths: Sequence[object]) -> None:
    if len(widths) != len(shape):
        raise ShapeError(f"pad of {tuple(shape)} expects {len(shape)} pairs of widths, got {len(widths)}")


def _pad_of(x: Array, *, widths: _Widths, value: float) -> Array:
    _check(x.shape, widths)
    dtype: Dtype = x.dtype
    shape = tuple(before + n + after for n, (before, after) in zip(x.shape, widths, strict=True))
    result = np.full(shape, value, dtype) if value else np.zeros(shape, dtype)
    result[tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, widths, strict=True))] = x
    return result


def _infer_pad(x: Spec, *, widths: _Widths, value: float) -> Spec:
    _check(x.shape, widths)
    return Spec(tuple(before + n + after for n, (before, after) in zip(x.shape, widths, strict=True)), x.dtype)


def _cut(g: Tensor, x: Tensor, widths: _Widths) -> Tensor:
    return getitem(g, tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, widths, strict=True)))


_pad: Primitive = Primitive("pad", _pad_of, _infer_pad, (lambda g, _, x, *, widths, value: _cut(g, x, widths),))


@method
def pad(x: Tensor, widths: Sequence[tuple[int, int]], mode: str = "constant", value: float = 0.0) -> Tensor:
    """Return the tensor with elements before and after.

    Args:
        x: Any tensor.
        widths: How many before and after, one pair an axis; negative ones cut elements off.
        mode: "constant"; "reflect" mirrors without, "symmetric" with the border; "edge" ("replicate") repeats it;
            "wrap" ("circular") goes on at the other end.
        value: The constant.
    """
    _check(x.shape, widths)
    pairs = tuple((int(before), int(after)) for before, after in widths)
    if any(n < 0 for pair in pairs for n in pair):
        kept = tuple(
            slice(max(0, -before), n - max(0, -after)) for n, (before, after) in zip(x.shape, pairs, strict=True)
        )
        x = getitem(x, kept)
        pairs = tuple((max(0, before), max(0, after)) for before, after in pairs)
    if mode == "constant":
        return _pad(x, widths=pairs, value=value) if any(n for pair in pairs for n in pair) else x
    if mode not in _MODES:
        raise ValueError(f"no padding mode {mode!r}; use 'constant', {', '.join(map(repr, _MODES))}")
    return _continued(x, pairs, _MODES[mode])


def _continued(x: Tensor, widths: _Widths, mode: str) -> Tensor:
    """Return the tensor continued by elements of its own: along each axis a row of indices says which."""
    for axis, (before, after) in enumerate(widths):
        if not before and not after:
            continue
        if x.shape[axis] < 1:
            raise ShapeError(f"pad with mode '{mode}' expects an element along axis {axis}, got shape {x.shape}")
        # NumPy's padding of the row of indices is the definition.
        row = np.pad(np.arange(x.shape[axis]), (before, after), mode)  # type: ignore[call-overload]
        x = getitem(x, (*(slice(None),) * axis, wrap(row)))
    return x
